// The hunks of a file in its editor: the server says where they are, and what is typed moves them until it says it anew.

import { StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView } from "@codemirror/view";
import { HunkBar } from "./hunks-bar.js";

/** The decorations of the document as it is after the transaction. */
export const setHunks = StateEffect.define();

export const hunkField = StateField.define({
  create: () => Decoration.none,
  update(decorations, transaction) {
    const given = transaction.effects.find((effect) => effect.is(setHunks));
    return given ? given.value : decorations.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

const LINES = Object.fromEntries(["added", "own", "accepted", "conflict"].map((name) =>
  [name, Decoration.line({ class: `line-${name}` })]));

function lineOf(hunk) {
  if (hunk.conflict) return LINES.conflict;
  if (hunk.origin === "user") return LINES.own;
  return hunk.state === "accepted" ? LINES.accepted : LINES.added;
}

/**
 * What shows hunks in `text`, which is the server's. `shownOf(hunk, index)` says how one is shown, as `HunkBar` wants it.
 */
export function decorationsOf(text, hunks, shownOf, does) {
  const ranges = [];
  hunks.forEach((hunk, index) => {
    const isBehind = hunk.start_line > text.lines;
    const widget = new HunkBar(shownOf(hunk, index), does);
    const place = isBehind ? text.length : text.line(hunk.start_line).from;
    ranges.push(Decoration.widget({ widget, block: true, side: isBehind ? 1 : -1 }).range(place));
    if (hunk.state === "rejected") return;
    const kind = lineOf(hunk);
    const isOwn = (line) => hunk.own_lines.some(([first, last]) => first <= line && line <= last);
    for (let line = hunk.start_line; line <= Math.min(hunk.end_line, text.lines); line += 1) {
      ranges.push((isOwn(line) ? LINES.own : kind).range(text.line(line).from));
    }
  });
  return Decoration.set(ranges, true);
}
