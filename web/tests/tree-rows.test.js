import assert from "node:assert/strict";
import { test } from "node:test";
import { currentKey, firstHunk, nextHunk, pendingRows } from "../src/review/pending-list-rows.js";
import { foldersOf, rowsOf, step, findByPrefix, indexPending } from "../src/review/tree-rows.js";

const file = (file_path, fields = {}) => ({ file_path, pending: 1, accepted: 0, rejected: 0, applied: 0, conflicts: 0, hunk_ids: ["h"], ...fields });
const entry = (name, kind = "file") => ({ name, kind });
const tree = ({ pending = [], open = [], folders }) =>
  rowsOf({ folders: new Map(Object.entries(folders)), open: new Set(open), waits: indexPending(pending) });

const PROJECT = { "": { entries: [entry("b.py"), entry("src", "directory"), entry("a10"), entry("a9")] }, src: { entries: [entry("x.py")] } };

test("folders come first, names are in natural order, and only expanded ones are listed", () => {
  assert.deepEqual(tree({ folders: PROJECT }).map((row) => row.path), ["src", "a9", "a10", "b.py"]);
  const rows = tree({ folders: PROJECT, open: ["src"] });
  assert.deepEqual(rows.map((row) => [row.path, row.level, row.place, row.size]).slice(0, 3), [
    ["src", 1, 1, 4], ["src/x.py", 2, 1, 1], ["a9", 1, 2, 4],
  ]);
});

test("a proposed file is listed with its proposed folders", () => {
  const rows = tree({ folders: PROJECT, pending: [file("guide/deep/index.md", { base_file_hash: "none" }), file("a9")], open: ["guide", "guide/deep"] });
  assert.deepEqual(rows.map((row) => row.path).slice(0, 4), ["guide", "guide/deep", "guide/deep/index.md", "src"]);
  assert.deepEqual(rows.filter((row) => row.isProposed).map((row) => row.path), ["guide/deep/index.md"]);
});

test("an unreadable, empty or cut folder says so", () => {
  const rows = tree({ folders: { "": { entries: [entry("one", "directory"), entry("two", "directory")], more: true }, one: { entries: [], problem: "Gone." }, two: { entries: [] } }, open: ["one", "two"] });
  assert.deepEqual(rows.map((row) => row.words ?? row.name), ["one", "Gone.", "two", "No files.", "More files exist. Find a file by name."]);
});

test("pending changes are counted for their file and each parent folder", () => {
  const waits = indexPending([file("src/deep/a"), file("src/b")]);
  assert.deepEqual([...waits.folders], [["src", 2], ["src/deep", 1]]);
  assert.deepEqual(foldersOf("src/deep/a"), ["src", "src/deep"]);
});

test("the arrow keys move, expand and collapse", () => {
  const rows = tree({ folders: PROJECT, open: ["src"] }).filter((row) => row.name);
  assert.deepEqual(step(rows, "src", "ArrowDown"), { to: "src/x.py" });
  assert.deepEqual(step(rows, "src", "ArrowRight"), { to: "src/x.py" });
  assert.deepEqual(step(rows, "src", "ArrowLeft"), { close: "src" });
  assert.deepEqual(step(rows, "src/x.py", "ArrowLeft"), { to: "src" });
  assert.deepEqual(step(rows, "src", "End"), { to: "b.py" });
  assert.deepEqual(step(rows, "b.py", "ArrowDown"), { to: "b.py" });
  assert.equal(step(rows, "b.py", "ArrowRight"), null);
  assert.equal(findByPrefix(rows, "a9", "a"), "a10");
  assert.equal(findByPrefix(rows, "a10", "a1"), "a10");
  assert.equal(findByPrefix(rows, "b.py", "q"), null);
});

test("saved and rejected hunks are not in the list of pending changes", () => {
  const pending = [file("a", { hunk_ids: ["1", "2", "3"] }), file("b")];
  const hunk = (hunk_id, state) => ({ hunk_id, state, patch: "@@ -1 +1 @@\n-a\n+b\n" });
  const views = new Map([["a", { rev: 1, hunks: [hunk("1", "pending"), hunk("2", "rejected"), hunk("3", "accepted")] }]]);
  const rows = pendingRows({ pending, views, notes: new Map(), folds: new Map() });
  assert.deepEqual(rows.map((row) => row.key), ["file/a", "hunk/a/1", "hunk/a/3", "file/b", "unknown/b"]);
  assert.equal(firstHunk(rows), "hunk/a/1");
  assert.equal(nextHunk(rows, null, 1), "hunk/a/1");
  assert.equal(nextHunk(rows, "hunk/a/1", 1), "unknown/b"); // decided ones are skipped, files that are not loaded are not
  assert.equal(nextHunk(rows, "hunk/a/3", -1), "hunk/a/1");
  assert.equal(nextHunk(rows, "unknown/b", 1), "hunk/a/1");
  const folds = new Map(["a", "b"].map((path) => [path, { isFolded: true, isDone: false }]));
  assert.deepEqual(pendingRows({ pending, views, notes: new Map(), folds }).map((row) => row.key), ["file/a", "file/b"]);
});

test("the keys start at the first hunk, and wait until it is loaded", () => {
  const pending = [file("a"), file("b")];
  const views = new Map([["b", { rev: 1, hunks: [{ hunk_id: "1", state: "pending", patch: "@@ -1 +1 @@\n-a\n+b\n" }] }]]);
  const rows = (...folded) =>
    pendingRows({ pending, views, notes: new Map(), folds: new Map(folded.map((path) => [path, { isFolded: true, isDone: false }])) });
  assert.equal(firstHunk(rows()), null);
  assert.equal(firstHunk(rows("a")), "hunk/b/1"); // the user has collapsed it
  assert.equal(firstHunk(rows("a", "b")), null);
});

test("the keys stay on a file while its hunks are loaded", () => {
  const pending = [file("a"), file("b")];
  const view = { rev: 1, hunks: [{ hunk_id: "1", state: "pending", patch: "@@ -1 +1 @@\n-a\n+b\n" }] };
  const rows = (...paths) => pendingRows({ pending, views: new Map(paths.map((path) => [path, view])), notes: new Map(), folds: new Map() });
  assert.equal(currentKey(rows("a"), "unknown/b"), "unknown/b");
  assert.equal(currentKey(rows("a", "b"), "unknown/b"), "hunk/b/1");
  assert.equal(currentKey(rows("a"), "hunk/a/1"), "hunk/a/1");
  assert.equal(currentKey(rows("a"), null), null);
});

test("a reviewed file is folded until the user unfolds it, and its accepted hunks are visited only if all are decided", () => {
  const pending = [file("a", { pending: 0, accepted: 1 }), file("b", { pending: 0, accepted: 1 })];
  const view = { rev: 1, hunks: [{ hunk_id: "1", state: "accepted", patch: "@@ -1 +1 @@\n-a\n+b\n" }] };
  const rows = (...folds) => pendingRows({ pending, views: new Map([["a", view], ["b", view]]), notes: new Map(), folds: new Map(folds) });
  assert.deepEqual(rows().map((row) => row.key), ["file/a", "file/b"]);
  const unfolded = rows(["a", { isFolded: false, isDone: true }], ["b", { isFolded: false, isDone: false }]);
  assert.deepEqual(unfolded.map((row) => row.key), ["file/a", "hunk/a/1", "file/b"]); // b was unfolded before it was reviewed
  assert.equal(nextHunk(unfolded, null, 1), "hunk/a/1");
});
