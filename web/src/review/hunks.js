// The marks of hunks in the editor: placed by the server, moved by typing until the server places them again.

import { StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView } from "@codemirror/view";
import { changedIn } from "../word-diff.js";
import { linesOf } from "./hunk-format.js";
import { HunkToolbar, isSameView } from "./hunk-toolbar.js";

const REBUILD_SHARE = 0.5; // the share of changed hunks from which all marks are rebuilt

/** Effect with a function from the current marks, mapped through the transaction, to the new DecorationSet. */
const setHunks = StateEffect.define();

export const hunkField = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    const given = transaction.effects.find((effect) => effect.is(setHunks));
    const moved = marks.map(transaction.changes);
    return given ? given.value(moved) : moved;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** The id of the hunk that a line of the editor belongs to; null for none. */
function hunkOfLine(view, line) {
  const at = view.posAtDOM(line);
  let id = null;
  view.state.field(hunkField).between(at, at, (_, __, { spec }) => void (spec.class?.startsWith("line-") && (id = spec.id)));
  return id;
}

function point(view, id) {
  for (const bar of view.dom.querySelectorAll(".inline-hunk")) bar.classList.toggle("is-pointed", bar.dataset.hunk === id);
}

/** Marks the toolbar of the hunk whose lines the pointer is on with a class: they are not part of the toolbar's element. */
export const hunkPointer = EditorView.domEventHandlers({
  mouseover({ target }, view) {
    const line = target.closest(".cm-line");
    point(view, line && hunkOfLine(view, line));
  },
  mouseleave: (_, view) => point(view, null),
});

function lineClass(hunk) {
  if (hunk.conflict) return "line-conflict";
  if (hunk.origin === "user") return "line-own";
  return hunk.state === "accepted" ? "line-accepted" : "line-added";
}

/** The position of a hunk in the server's `text`. */
export const positionIn = (text, { start_line: line }) => (line > text.lines ? text.length : text.line(line).from);

const MAX_MARKED = 200; // lines of a hunk in which words are marked

/** The changed words in the lines of a hunk: ranges by line, counted from the hunk's first. */
function changedLines(text, hunk) {
  const { removed } = linesOf(hunk);
  const last = Math.min(hunk.end_line, text.lines);
  if (hunk.kind !== "lines" || removed.length === 0 || Math.max(removed.length, last - hunk.start_line) > MAX_MARKED) return new Map();
  const lines = Array.from({ length: Math.max(last - hunk.start_line + 1, 0) }, (_, at) => text.line(hunk.start_line + at).text);
  return changedIn(removed, lines).fresh;
}

/** The marks of one hunk in the server's `text`; each has the hunk's id. */
function marksOf(text, shown, actions) {
  const { hunk } = shown;
  const id = hunk.hunk_id;
  const isBehind = hunk.start_line > text.lines;
  const bar = Decoration.widget({ id, widget: new HunkToolbar(shown, actions), block: true, side: isBehind ? 1 : -1 });
  const marks = [bar.range(positionIn(text, hunk))];
  if (hunk.state === "rejected") return marks;
  const isOwn = (line) => hunk.own_lines.some(([first, last]) => first <= line && line <= last);
  const usual = Decoration.line({ id, class: lineClass(hunk) });
  const own = Decoration.line({ id, class: "line-own" });
  const words = Decoration.mark({ id, class: "changed-word" });
  const changed = changedLines(text, hunk);
  for (let line = hunk.start_line; line <= Math.min(hunk.end_line, text.lines); line += 1) {
    const { from } = text.line(line);
    marks.push((isOwn(line) ? own : usual).range(from));
    for (const [start, end] of changed.get(line - hunk.start_line) ?? []) marks.push(words.range(from + start, from + end));
  }
  return marks;
}

/** Replace the marks of the hunks `gone` (ids) by `others`. */
function replaced(marks, gone, others) {
  let [filterFrom, filterTo] = [Infinity, -1]; // marks outside are kept unchanged
  for (const at = marks.iter(); at.value; at.next()) {
    if (!gone.has(at.value.spec.id)) continue;
    filterFrom = Math.min(filterFrom, at.from);
    filterTo = at.to;
  }
  const add = [];
  for (const at = others.iter(); at.value; at.next()) add.push(at.value.range(at.from, at.to));
  return marks.update({ add, filter: (from, to, mark) => !gone.has(mark.spec.id), filterFrom, filterTo });
}

/** Draws the hunks of a file. After a decision only the marks of changed hunks are rebuilt. */
export class HunkMarks {
  /** `actions` are those of `HunkToolbar`. */
  constructor(actions) {
    this.actions = actions;
    this.shown = new Map(); // by hunk id, as they are drawn
    this.count = 0; // of all marks
  }

  /** Build the marks of hunks in a text that has none yet. */
  begin(text, shown) {
    const marks = this.#made(text, shown);
    this.#keep(shown, marks.size);
    return marks;
  }

  /**
   * The effect that shows the hunks `shown`, each as `HunkToolbar` takes it, in the server's `text`; `local` is the change from
   * there to the text of the editor. It must be dispatched exactly once. `there` are the current marks, if the text does not
   * change too: the result is null if they are up to date.
   */
  draw(text, local, shown, there) {
    const { shown: before, count } = this;
    this.#keep(shown, count);
    const other = shown.filter((each) => !isSameView(each, before.get(each.hunk.hunk_id)));
    const gone = new Set([...before].filter(([id, was]) => !isSameView(was, this.shown.get(id))).map(([id]) => id));
    if (other.length === 0 && gone.size === 0 && there?.size === count) return null;
    return setHunks.of((marks) => {
      // Marks disappear with removed text, and the text may be back.
      const isWhole = marks.size === count && other.length < shown.length * REBUILD_SHARE;
      const made = isWhole ? replaced(marks, gone, this.#made(text, other).map(local)) : this.#made(text, shown).map(local);
      this.count = made.size;
      return made;
    });
  }

  #made = (text, shown) => Decoration.set(shown.flatMap((each) => marksOf(text, each, this.actions)), true);

  #keep(shown, count) {
    this.shown = new Map(shown.map((each) => [each.hunk.hunk_id, each]));
    this.count = count;
  }
}
