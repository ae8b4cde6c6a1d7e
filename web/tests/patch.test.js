import assert from "node:assert/strict";
import { test } from "node:test";
import { paired, parsePatch, sizeOf } from "../src/review/patch.js";

const PATCH = [
  "diff --git a/a b/a", "--- a/a", "+++ b/a", "@@ -1,3 +1,3 @@", " one", "--- two", "+++ TWO", " three",
  "@@ -9 +9,2 @@", "-nine", "\\ No newline at end of file", "+nine", "+ten", "",
].join("\n");

test("removed lines that look like a file head are lines, and each line has its number", () => {
  const [file] = parsePatch(PATCH);
  assert.equal(file.path, "a");
  assert.deepEqual(file.hunks[0].lines, [
    { kind: "same", text: "one", old: 1, new: 1 },
    { kind: "del", text: "-- two", old: 2, new: null },
    { kind: "add", text: "++ TWO", old: null, new: 2 },
    { kind: "same", text: "three", old: 3, new: 3 },
  ]);
  assert.deepEqual(file.hunks[1].lines.map(({ kind }) => kind), ["del", "note", "add", "add"]);
  assert.deepEqual(sizeOf([file]), { added: 3, removed: 2 });
});

test("created, deleted and binary files are labelled", () => {
  const [gone, blob] = parsePatch(
    'diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n' +
    'diff --git "a/\\303\\274" "b/\\303\\274"\nnew file mode 100644\nBinary files /dev/null and b/p differ\n');
  assert.deepEqual([gone.notes, gone.hunks.length, gone.isBinary], [["deleted file mode 100644"], 1, false]);
  assert.deepEqual([blob.path, blob.isBinary, blob.hunks], ["\\303\\274", true, []]);
});

test("a part of a patch needs no file head, and an empty patch has no files", () => {
  assert.deepEqual(parsePatch("@@ -0,0 +1 @@\n+new\n").map(({ path, hunks }) => [path, hunks.length]), [["", 1]]);
  assert.deepEqual(parsePatch(""), []);
});

test("two columns: removed lines face their replacements", () => {
  const [{ hunks }] = parsePatch("@@ -1,3 +1,2 @@\n a\n-b\n-c\n+B\n");
  assert.deepEqual(paired(hunks[0].lines).map((row) => [row.old?.text ?? null, row.new?.text ?? null]), [["a", "a"], ["b", "B"], ["c", null]]);
});
