// If these fail, a hunk in the editor is shown in the wrong place, out of date, or not at all.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ChangeSet, EditorState, Text } from "@codemirror/state";
import { HunkMarks, hunkField } from "../src/review/hunks.js";

const hunk = (id, start, end, more = {}) =>
  ({ hunk_id: id, start_line: start, end_line: end, state: "pending", origin: "agent", conflict: false, own_lines: [], patch: "", ...more });
const shownOf = (hunks) => hunks.map((each, index) => ({ hunk: each, number: index + 1, total: hunks.length }));

/** The drawn marks, as [place, id, what]. */
function drawn(state) {
  const found = [];
  for (const at = state.field(hunkField).iter(); at.value; at.next()) {
    found.push([at.from, at.value.spec.id, at.value.spec.class ?? at.value.spec.widget.shown]);
  }
  return found;
}

function begun(lines) {
  const state = EditorState.create({ doc: Text.of(lines), extensions: [hunkField] });
  return { marks: new HunkMarks({}), state };
}

/** Draw hunks placed in the text of `at`, after `changes` to it. */
function draw(at, hunks, changes = ChangeSet.empty(at.state.doc.length)) {
  const text = changes.apply(at.state.doc);
  const there = changes.empty ? at.state.field(hunkField) : null;
  const effect = at.marks.draw(text, ChangeSet.empty(text.length), shownOf(hunks), there);
  at.state = at.state.update({ changes, effects: effect ?? [] }).state;
  return effect;
}

test("after any changes of hundreds of hunks, the marks equal a fresh drawing", () => {
  let seed = 7;
  const random = (below) => (seed = (seed * 48_271) % 0x7fffffff) % below;
  const lines = Array.from({ length: 2_000 }, (_, number) => `line ${number}`);
  const at = begun(lines);
  let hunks = Array.from({ length: 400 }, (_, number) => hunk(`h${number}`, 5 * number + 1, 5 * number + random(4)));
  for (let step = 0; step < 60; step += 1) {
    const chosen = random(hunks.length);
    const decided = { ...hunks[chosen], state: ["accepted", "rejected", "pending"][random(3)] };
    let changes;
    hunks = hunks.with(chosen, decided);
    if (step % 3 === 1) hunks = hunks.toSpliced(random(hunks.length), 1);
    if (step % 3 === 2) { // a line is inserted above a hunk and moves those below
      const { start_line: line } = hunks[random(hunks.length)];
      changes = ChangeSet.of({ from: at.state.doc.line(line).from, insert: "new\n" }, at.state.doc.length);
      hunks = hunks.map((each) => (each.start_line < line ? each : { ...each, start_line: each.start_line + 1, end_line: each.end_line + 1 }));
    }
    draw(at, hunks, changes);
    const fresh = begun(at.state.doc.toJSON());
    draw(fresh, hunks);
    assert.deepEqual(drawn(at.state), drawn(fresh.state));
  }
});

test("a hunk whose lines were deleted and restored is shown again", () => {
  const at = begun(["one", "two", "three", ""]);
  const hunks = [hunk("a", 1, 1), hunk("b", 2, 3)];
  draw(at, hunks);
  const before = drawn(at.state);
  at.state = at.state.update({ changes: { from: 4, to: 14 } }).state;
  at.state = at.state.update({ changes: { from: 4, insert: "two\nthree\n" } }).state;
  draw(at, hunks);
  assert.deepEqual(drawn(at.state), before);
});

test("unchanged hunks are not redrawn", () => {
  const at = begun(["one", "two", ""]);
  const hunks = [hunk("a", 1, 1), hunk("b", 2, 2)];
  assert.ok(draw(at, hunks));
  assert.equal(draw(at, hunks), null);
  assert.ok(draw(at, [{ ...hunks[0], state: "accepted" }, hunks[1]]));
});
