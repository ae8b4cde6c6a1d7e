import assert from "node:assert/strict";
import { test } from "node:test";
import { ChangeSet, Text } from "@codemirror/state";
import { changesBetween, fileOf, splitChange, splicesOf } from "../src/review/splices.js";

const linesOf = (content) => content.split(/(?<=\n)/).filter((line) => line !== "");

/** The result of splices on the server; all positions refer to the text before. */
function carriedOut(content, splices) {
  const lines = linesOf(content);
  let end = 0;
  for (const { start_line: start, delete_lines: count } of splices) {
    assert.ok(start >= 1 && start - 1 >= end && start - 1 + count <= lines.length, "splices are in the file, and apart");
    end = start - 1 + count;
  }
  for (const { start_line: start, delete_lines: count, new_text: text } of splices.toReversed()) {
    lines.splice(start - 1, count, ...linesOf(text));
  }
  return lines.join("");
}

const typed = (content, ...changes) => {
  const file = fileOf(content);
  return splicesOf(file, ChangeSet.of(changes, file.text.length));
};

function random(seed) {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

const PIECES = ["a", "b", "\n", "\n", "", "\u2028", "😀", "\ta ", "b\n", "\n\n", "a\nb\n"];
const FILES = ["a", "b", "\n", "\r\n", "\r", "\u2028", "\u0085", "😀", "x\n", "y\r\n"];

const some = (next, pieces, most) => Array.from({ length: next(most) }, () => pieces[next(pieces.length)]).join("");

function someChanges(next, text) {
  const places = Array.from({ length: 2 * (1 + next(4)) }, () => next(text.length + 1)).sort((a, b) => a - b);
  const changes = [];
  for (let at = 0; at < places.length; at += 2) {
    changes.push({ from: places[at], to: places[at + 1], insert: fileOf(some(next, PIECES, 4)).text });
  }
  return ChangeSet.of(changes.map(({ from, to, insert }) => ({ from, to, insert })), text.length);
}

test("the server has the typed text after the splices, and no other line end changes", () => {
  const next = random(7);
  for (let round = 0; round < 4_000; round += 1) {
    const content = some(next, FILES, 14);
    const file = fileOf(content);
    const changes = someChanges(next, file.text);
    const splices = splicesOf(file, changes);
    const after = carriedOut(content, splices);
    // A "\r" before a line end becomes part of it.
    const wanted = changes.apply(file.text).toString().replace(/\r+\n/g, "\n");
    assert.equal(after.replace(/\r+\n/g, "\n"), wanted, JSON.stringify([content, changes.toJSON(), splices]));
  }
});

test("another window's change is applied exactly", () => {
  const next = random(11);
  for (let round = 0; round < 4_000; round += 1) {
    const [a, b] = [fileOf(some(next, FILES, 14)).text, fileOf(some(next, FILES, 14)).text];
    assert.ok(changesBetween(a, b).apply(a).eq(b), JSON.stringify([a.toJSON(), b.toJSON()]));
  }
});

test("a file's state does not depend on the expected text", () => {
  const next = random(19);
  for (let round = 0; round < 4_000; round += 1) {
    const content = some(next, FILES, 6);
    const file = fileOf(content);
    const expected = next(2) ? fileOf(some(next, FILES, 6)).text : changesBetween(file.text, file.text).apply(file.text);
    const { text, returns, usual } = fileOf(content, expected);
    assert.deepEqual([text.toJSON(), returns, usual], [file.text.toJSON(), file.returns, file.usual], JSON.stringify([content, expected.toJSON()]));
    assert.equal(text === expected, expected.eq(file.text));
  }
  assert.deepEqual(fileOf("a\r\n", Text.of(["a\r", ""])).text.toJSON(), ["a", ""]);
});

test("both sides converge when a remote change arrives during typing", () => {
  const next = random(13);
  for (let round = 0; round < 2_000; round += 1) {
    const [a, b] = [fileOf(some(next, FILES, 14)).text, fileOf(some(next, FILES, 14)).text];
    const [unsent, theirs] = [someChanges(next, a), changesBetween(a, b)];
    const here = theirs.map(unsent).apply(unsent.apply(a));
    assert.ok(unsent.map(theirs, true).apply(b).eq(here));
  }
});

test("a replacement in thousands of places is sent in parts that make the whole", () => {
  const next = random(17);
  for (let round = 0; round < 500; round += 1) {
    const { text } = fileOf(some(next, FILES, 20));
    const changes = someChanges(next, text);
    const [first, rest] = splitChange(changes, 1 + next(3));
    assert.ok(rest.apply(first.apply(text)).eq(changes.apply(text)));
  }
});

test("a line of a file with mixed ends keeps its own, and a new one has the usual end", () => {
  assert.deepEqual(typed("a\r\nb\nc\r\nd\r\n", { from: 3, insert: "!" }), [{ start_line: 2, delete_lines: 1, new_text: "b!\n" }]);
  assert.deepEqual(typed("a\r\nb\r\n", { from: 1, insert: "!\nnew" }), [{ start_line: 1, delete_lines: 1, new_text: "a!\r\nnew\r\n" }]);
  assert.deepEqual(typed("a\r\nb\n", { from: 0, to: 2 }), [{ start_line: 1, delete_lines: 1, new_text: "" }]);
});

test("the last line keeps or lacks its end as before", () => {
  assert.deepEqual(typed("a\nb", { from: 3, insert: "c" }), [{ start_line: 2, delete_lines: 1, new_text: "bc" }]);
  assert.deepEqual(typed("a\n", { from: 2, insert: "b" }), [{ start_line: 2, delete_lines: 0, new_text: "b" }]);
  assert.deepEqual(typed("a\n", { from: 1, to: 2 }), [{ start_line: 1, delete_lines: 1, new_text: "a" }]);
  assert.deepEqual(typed("", { from: 0, insert: "a" }), [{ start_line: 1, delete_lines: 0, new_text: "a" }]);
});

test("an inserted empty line touches no line around it, which may be proposed", () => {
  assert.deepEqual(typed("a\nb\n", { from: 1, insert: "\nnew" }), [{ start_line: 2, delete_lines: 0, new_text: "new\n" }]);
});
