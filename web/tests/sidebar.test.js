import assert from "node:assert/strict";
import { test } from "node:test";
import { rowWords, sent, withRow } from "../src/review/context.js";
import { Decisions } from "../src/review/sidebardecide.js";
import { countWords, lineWords } from "../src/review/sidebarfile.js";
import { beginning, placeWords } from "../src/review/sidebarhunk.js";
import { createReview } from "../src/review/state.js";

const row = (path, first, last, content = "") => ({ id: `${path}${first}`, kind: "selection", file_path: path, start_line: first, end_line: last, content });

test("the same lines added twice are one row, with the newer text, and stay pinned", () => {
  const rows = withRow([{ ...row("a.md", 1, 2, "old"), isPinned: true }, row("b.md", 1, 1)], row("a.md", 1, 2, "new"));
  assert.deepEqual(rows.map(rowWords), ["b.md:1", "a.md:1–2"]);
  assert.deepEqual([rows[1].content, rows[1].isPinned], ["new", true]);
  assert.equal("isPinned" in sent(rows[1]), false);
});

test("a hunk shows its first changed lines, without the signs that hide others", () => {
  const { lines, more } = beginning(`@@ -1,3 +1,9 @@\n same\n-a\r\n+b\u202e\r\n${"+c\n".repeat(6)}`);
  assert.deepEqual(lines.slice(0, 2), [{ kind: "del", text: "-a" }, { kind: "add", text: "+b<U+202E>" }]);
  assert.deepEqual([lines.length, more], [5, 3]);
  assert.deepEqual(beginning("").lines, []);
  assert.ok(beginning(`@@ -1 +1 @@\n+${"x".repeat(1_000_000)}`).lines[0].text.length <= 160);
});

test("counts and places are said in words", () => {
  assert.equal(countWords({ pending: 2, accepted: 1, conflicts: 1 }), "2 to decide · 1 to save · 1 conflict");
  assert.equal(lineWords([{ patch: "@@ -1 +1 @@\n-a\n+b\n" }, { patch: "@@ -3,0 +4 @@\n+c\n" }]), "+2 −1");
  assert.deepEqual([[5, 5], [5, 7], [5, 4]].map(([start_line, end_line]) => placeWords({ start_line, end_line })), ["line 5", "lines 5–7", "at line 5"]);
});

/** A server with one file of two hunks; `others` is called before each decision, as another window would do something. */
function server(others = () => {}) {
  const file = { file_path: "a.md", rev: 1, hunks: ["h1", "h2"].map((id) => ({ hunk_id: id, patch: `@@ ${id}`, state: "pending", mine: false, conflict: false })) };
  const view = () => structuredClone(file);
  const api = {
    pending: async () => [],
    file: async () => view(),
    decide: async (path, rev, action, { hunk }) => {
      others(file);
      if (rev !== file.rev) throw Object.assign(new Error("stale"), { code: "stale_revision" });
      file.hunks.find((each) => each.hunk_id === hunk).state = action === "accept" ? "accepted" : "rejected";
      file.rev += 1;
      return view();
    },
  };
  const review = createReview({ api });
  review.hold("a.md");
  return { file, decisions: new Decisions({ api, review }) };
}

test("decisions made faster than the server answers are all done", async () => {
  const { file, decisions } = server();
  const [first, second] = structuredClone(file.hunks);
  await Promise.all([decisions.hunk("a.md", first, "accept"), decisions.hunk("a.md", second, "reject")]);
  assert.deepEqual(file.hunks.map((each) => each.state), ["accepted", "rejected"]);
});

test("a decision is made on another revision if the hunk is still the one that was shown, and else not", async () => {
  let left = 1;
  const elsewhere = server((file) => left-- > 0 && (file.rev += 1));
  await elsewhere.decisions.hunk("a.md", structuredClone(elsewhere.file.hunks[0]), "accept");
  assert.equal(elsewhere.file.hunks[0].state, "accepted");

  let once = 1;
  const there = server((file) => {
    if (once-- > 0) Object.assign(file, { rev: file.rev + 1 }).hunks[0].patch = "@@ another";
  });
  await assert.rejects(there.decisions.hunk("a.md", structuredClone(there.file.hunks[0]), "accept"), /changed just now/);
  assert.equal(there.file.hunks[0].state, "pending");
});

test("a file is not decided as a whole when it has hunks that the list did not show", async () => {
  const { file, decisions } = server();
  await assert.rejects(decisions.rejectFile({ file_path: "a.md", hunk_ids: ["h1"] }), /changed just now/);
  assert.equal(await decisions.rejectFile({ file_path: "a.md", hunk_ids: ["h1", "h2"] }), 0);
  assert.deepEqual(file.hunks.map((each) => each.state), ["rejected", "rejected"]);
});
