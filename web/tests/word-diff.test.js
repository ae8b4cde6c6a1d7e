// If these fail, the page marks other words as changed than the terminal, or cuts a text at the wrong place.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { changedInDiff, changedWords, cutAt, linePairs } from "../src/word-diff.js";

const { cases } = JSON.parse(readFileSync(new URL("../../tests/fixtures/word_diffs.json", import.meta.url), "utf8"));

const marked = (text, ranges) => cutAt(text, ranges).map((piece) => (piece.isChanged ? `⟦${piece.text}⟧` : piece.text)).join("");

test("the page marks the same words as the terminal", () => {
  assert.ok(cases.length > 20);
  for (const { name, old, new: fresh, pairs } of cases) {
    const found = linePairs(old, fresh).map(([removed, added]) => {
      const words = changedWords(old[removed], fresh[added]);
      return [removed, added, marked(old[removed], words.old), marked(fresh[added], words.fresh)];
    });
    assert.deepEqual(found, pairs, name);
  }
});

test("a long run of spaces does not hold up the page", () => {
  const line = `a${" ".repeat(300_000)}b`;
  assert.deepEqual(changedWords(`${line} c`, `${line} d`), { old: [[300_003, 300_004]], fresh: [[300_003, 300_004]] });
});

test("lines of a diff are compared only with those beside them", () => {
  const lines = [["same", "x"], ["del", "a b c"], ["add", "a b d"], ["same", "y"], ["del", "a b c"], ["same", "z"], ["add", "a b e"]];
  const found = changedInDiff(lines.map(([kind, text]) => ({ kind, text })));
  assert.deepEqual([...found], [[1, [[4, 5]]], [2, [[4, 5]]]]);
});
