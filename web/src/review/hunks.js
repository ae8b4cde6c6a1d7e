// The hunks of a file in its editor: the server says where they are, and what is typed moves them until it says it anew.

import { StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView } from "@codemirror/view";
import { HunkToolbar, isSameView } from "./hunk-toolbar.js";

const MANY = 0.5; // the share of hunks that are shown otherwise from which on all marks are made anew

/** What makes the marks of hunks, a DecorationSet, of those that are there, moved to the document after the transaction. */
export const setHunks = StateEffect.define();

export const hunkField = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    const given = transaction.effects.find((effect) => effect.is(setHunks));
    const moved = marks.map(transaction.changes);
    return given ? given.value(moved) : moved;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function lineClass(hunk) {
  if (hunk.conflict) return "line-conflict";
  if (hunk.origin === "user") return "line-own";
  return hunk.state === "accepted" ? "line-accepted" : "line-added";
}

/** Where a hunk stands in `text`, which is the server's. */
export const positionIn = (text, { start_line: line }) => (line > text.lines ? text.length : text.line(line).from);

/** The marks of one hunk in `text`, which is the server's; each knows the hunk by its id. */
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
  for (let line = hunk.start_line; line <= Math.min(hunk.end_line, text.lines); line += 1) {
    marks.push((isOwn(line) ? own : usual).range(text.line(line).from));
  }
  return marks;
}

/** Marks without those of the hunks `gone`, by their ids, and with `others`. */
function replaced(marks, gone, others) {
  let [filterFrom, filterTo] = [Infinity, -1]; // what lies outside is taken over as it is
  for (const at = marks.iter(); at.value; at.next()) {
    if (!gone.has(at.value.spec.id)) continue;
    filterFrom = Math.min(filterFrom, at.from);
    filterTo = at.to;
  }
  const add = [];
  for (const at = others.iter(); at.value; at.next()) add.push(at.value.range(at.from, at.to));
  return marks.update({ add, filter: (from, to, mark) => !gone.has(mark.spec.id), filterFrom, filterTo });
}

/** What shows the hunks of a file. Where another one is decided, most are as they were: their marks stay. */
export class HunkMarks {
  /** `does` is what the buttons do, as `HunkBar` wants it. */
  constructor(actions) {
    this.actions = actions;
    this.shown = new Map(); // by hunk id, as they are drawn
    this.count = 0; // of all marks
  }

  /** The marks of hunks in a text that has none yet. */
  begin(text, shown) {
    const marks = this.#made(text, shown);
    this.#keep(shown, marks.size);
    return marks;
  }

  /**
   * The effect that shows hunks as `shown` says, each as `HunkBar` wants it, in `text`, which is the server's; `local` leads
   * from there to the text of the editor. It has to be carried out, and once. `there` are the marks in the editor, unless
   * its text changes too: then there is nothing to do, and no effect but null, where they show all of it.
   */
  draw(text, local, shown, there) {
    const { shown: before, count } = this;
    this.#keep(shown, count);
    const other = shown.filter((each) => !isSameView(each, before.get(each.hunk.hunk_id)));
    const gone = new Set([...before].filter(([id, was]) => !isSameView(was, this.shown.get(id))).map(([id]) => id));
    if (other.length === 0 && gone.size === 0 && there?.size === count) return null;
    return setHunks.of((marks) => {
      // With text that was taken away marks went, too, and the text may be there again.
      const isWhole = marks.size === count && other.length < shown.length * MANY;
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
