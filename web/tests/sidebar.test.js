import assert from "node:assert/strict";
import { test } from "node:test";
import { formatContextRow, toRequest, withRow } from "../src/review/prompt-context.js";
import { describeCounts, countLines } from "../src/review/sidebar-file.js";
import { describeHunk, formatPlace } from "../src/review/hunk-format.js";
import { previewPatch } from "../src/review/sidebar-hunk.js";

const row = (path, first, last, content = "") => ({ id: `${path}${first}`, kind: "selection", file_path: path, start_line: first, end_line: last, content });

test("the same lines added twice are one row, with the newer text, and stay pinned", () => {
  const rows = withRow([{ ...row("a.md", 1, 2, "old"), isPinned: true }, row("b.md", 1, 1)], row("a.md", 1, 2, "new"));
  assert.deepEqual(rows.map(formatContextRow), ["b.md:1", "a.md:1–2"]);
  assert.deepEqual([rows[1].content, rows[1].isPinned], ["new", true]);
  assert.equal("isPinned" in toRequest(rows[1]), false);
});

test("a hunk shows its first changed lines, with hidden characters escaped", () => {
  const { lines, more } = previewPatch(`@@ -1,3 +1,9 @@\n same\n-a\r\n+b\u202e\r\n${"+c\n".repeat(6)}`);
  assert.deepEqual(lines.slice(0, 2), [{ kind: "del", text: "-a" }, { kind: "add", text: "+b<U+202E>" }]);
  assert.deepEqual([lines.length, more], [5, 3]);
  assert.deepEqual(previewPatch("").lines, []);
  assert.ok(previewPatch(`@@ -1 +1 @@\n+${"x".repeat(1_000_000)}`).lines[0].text.length <= 160);
});

test("counts and places are phrases", () => {
  assert.equal(describeCounts({ pending: 2, unsaved: 1, conflicts: 2, pending_conflicts: 1 }), "2 to decide · 1 to save · 1 conflict");
  assert.equal(countLines([{ patch: "@@ -1 +1 @@\n-a\n+b\n" }, { patch: "@@ -3,0 +4 @@\n+c\n" }]), "+2 −1");
  assert.deepEqual([[5, 5], [5, 7], [5, 4]].map(([start_line, end_line]) => formatPlace({ start_line, end_line })), ["line 5", "lines 5–7", "before line 5"]);
});

test("a warning stands beside its hunk: an agent that changes a test is noticed", () => {
  const hunk = { kind: "lines", state: "pending", origin: "agent", warning: "changes an existing test" };
  assert.equal(describeHunk(hunk), "changes an existing test");
  assert.equal(describeHunk({ ...hunk, warning: "" }), "");
});
