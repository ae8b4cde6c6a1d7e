// If these fail, a change names the wrong chat or agent, or is in the wrong place of a conversation.

import assert from "node:assert/strict";
import { test } from "node:test";

import { setAttr } from "../src/dom.js";
import { RunChanges, describeDecisions, rowsOf, totalsOf, withChanges } from "../src/review/changes.js";
import { dialogueOf } from "../src/review/job-view.js";
import { outcomeOf } from "../src/review/job-list.js";
import { originOf } from "../src/review/run-origin.js";
import { describeChange, movesOf, describeWholeFile } from "../src/review/change-labels.js";
import { pictureType, formatSizes } from "../src/review/binary-file-view.js";

const run = (fields) => ({ run_id: "r", session_id: "s", title: "add a flag", ...fields });

test("a hunk's origin is an open tab, a review, or a conversation that can be opened", () => {
  const tabs = [{ id: "t1", session: "s", title: "Agent-1\u202e" }];
  assert.deepEqual(originOf(run(), tabs), { key: "t1", name: "Agent-1<U+202E>", title: "add a flag", tab: "t1" });
  assert.deepEqual(originOf(run({ session_id: "sess_1" }), tabs), { key: "r", name: "Review: add a flag", title: "add a flag", request: "r" });
  assert.deepEqual(originOf(run({ session_id: "gone" }), tabs), { key: "gone", name: "add a flag", title: "add a flag", session: "gone" });
  assert.equal(originOf(run({ session_id: "", title: "" }), tabs).name, "A conversation");
  assert.deepEqual(originOf(run({ run_id: "rollback_1", title: "Undo of it" }), tabs), { key: "rollback_1", name: "Undo of it", title: "Undo of it", isUndo: true });
});

const entry = (id, kind, at) => ({ id, kind, at });
const change = (id, at) => ({ checkpoint_id: id, created_at: at });

test("a run's changes are shown at the end of its turn", () => {
  const entries = [entry("u1", "user", "1"), entry("a1", "assistant", "3"), entry("u2", "user", "5"), entry("a2", "assistant", "7")];
  const keys = (changes) => withChanges(entries, changes).map(([key]) => key);
  assert.deepEqual(keys([change("c1", "2"), change("c2", "6")]), ["u1", "a1", "c1", "u2", "a2", "c2"]);
  assert.deepEqual(keys([change("c1", "6"), change("c2", "7")]), ["u1", "a1", "u2", "a2", "c1", "c2"]);
  assert.deepEqual(keys([change("old", "0")]), ["u1", "a1", "u2", "a2"]);
  assert.deepEqual(withChanges([], [change("c", "1")]), []);
});

test("the outcome of hunks is shown, also if it is no longer known", () => {
  const files = [{ pending: 1, accepted: 0, applied: 2, rejected: 0 }, { pending: 1, accepted: 1, applied: 0, rejected: 1 }];
  assert.equal(describeDecisions(totalsOf(files)), "2 to decide · 1 accepted, unsaved · 2 kept · 1 rejected");
  assert.equal(describeDecisions({ pending: 12345, accepted: 0, applied: 1000, rejected: 0 }), "12,345 to decide · 1,000 kept");
  assert.equal(describeDecisions(totalsOf([])), "changed since");
});

test("a file that a run moved is one row, unless something else became of its new name", () => {
  const file = (file_path, fields = {}) => ({ file_path, pending: 0, accepted: 0, applied: 1, rejected: 0, added: 0, removed: 0, ...fields });
  const rows = (old, now, kept_files = []) =>
    rowsOf({ files: [file("a", { moved_to: "b", ...old }), file("b", { moved_from: "a", ...now }), file("c")], kept_files })
      .map(({ file: each, from }) => [from?.file_path ?? null, each.file_path]);
  assert.deepEqual(rows(), [["a", "b"], [null, "c"]]);
  assert.deepEqual(rows({ applied: 0, rejected: 1 }), [[null, "a"], [null, "b"], [null, "c"]]);
  assert.deepEqual(rows({}, {}, ["b"]), [[null, "a"], [null, "b"], [null, "c"]]);
});

test("a conversation's changes are read again only after a change, and keep their identity otherwise", async () => {
  let [runs, asked] = [[{ checkpoint_id: "c", job_id: "r", files: [] }], 0];
  let changed = () => {};
  const api = { checkpoints: async () => ((asked += 1), { checkpoints: structuredClone(runs) }) };
  const changes = new RunChanges({ api, review: { subscribe: (reader) => (changed = reader) }, changed: () => {} });
  changes.of("s");
  await Promise.resolve();
  await new Promise(setImmediate);
  const first = changes.of("s");
  assert.deepEqual([first, asked], [runs, 1]);
  changed({ pending: [] });
  changes.of("s");
  await new Promise(setImmediate);
  assert.deepEqual([changes.of("s") === first, asked], [true, 2]);
  runs = [{ checkpoint_id: "back", job_id: "rollback_1", files: [] }, ...runs];
  changed({ pending: [1] });
  changes.of("s");
  await new Promise(setImmediate);
  assert.equal(changes.of("s") === first, true);
  let told = 0;
  changes.changed = () => (told += 1);
  changed({ pending: [2] });
  changes.of("s");
  changed({ pending: [3] }); // while it is being read
  told = 0;
  await new Promise(setImmediate);
  assert.equal(told, 1);
  changes.keep([]);
  assert.deepEqual(changes.of("s", false), []);
});

test("a false aria attribute is written out, any other false attribute is removed", () => {
  const attributes = new Map();
  const element = {
    getAttribute: (name) => attributes.get(name) ?? null,
    setAttribute: (name, value) => attributes.set(name, value),
    removeAttribute: (name) => attributes.delete(name),
  };
  for (const value of [true, false]) {
    setAttr(element, "aria-expanded", value);
    setAttr(element, "hidden", value);
  }
  setAttr(element, "aria-current", null);
  assert.deepEqual([...attributes], [["aria-expanded", "false"]]);
});

test("an image is recognized by its first bytes, and nothing else is drawn", () => {
  const bytes = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  assert.equal(pictureType(bytes("\x89PNG\r\n\x1a\n…")), "image/png");
  assert.equal(pictureType(bytes("\xff\xd8\xff\xe0")), "image/jpeg");
  assert.equal(pictureType(bytes("GIF89a")), "image/gif");
  assert.equal(pictureType(bytes("RIFF1234WEBPVP8 ")), "image/webp");
  for (const text of ["", "<svg xmlns", "<html>", "RIFF1234WAVE", "%PDF-1.7"]) assert.equal(pictureType(bytes(text)), null);
});

test("the change of a hunk without lines and a file's sizes are described", () => {
  const hunk = { kind: "bytes", state: "pending", start_line: 1, end_line: 1 };
  assert.equal(describeWholeFile(hunk), "The whole content changes.");
  assert.equal(describeWholeFile({ ...hunk, end_line: 0 }), "Deletes the file.");
  assert.equal(describeWholeFile({ kind: "lines" }), "");
  assert.equal(formatSizes({ size: 2_000, base_size: 900, hunks: [hunk] }), "900 bytes → 2.0 kB");
  assert.equal(formatSizes({ size: 2_000, base_size: null, hunks: [hunk] }), "A new file · 2.0 kB");
  assert.equal(formatSizes({ size: 2_000, base_size: 2_000, hunks: [] }), "2.0 kB");
});

test("a job's questions are listed with their answers, including skipped and open ones", () => {
  const asked = (id) => ({ type: "clarification.requested", data: { question_id: id, question: `${id}?` } });
  const given = (id, answer, skipped = false) => ({ type: "clarification.received", data: { question_id: id, answer, skipped } });
  const events = [asked("a"), given("a", "yes"), asked("b"), given("b", "no_user_answer", true), asked("c")];
  assert.deepEqual(dialogueOf(events), [{ question: "a?", answer: "yes" }, { question: "b?", answer: "" }, { question: "c?", answer: null }]);
});

test("a job's outcome is a word", () => {
  const words = (status, files = 1, waits = true) => outcomeOf({ status, files }, waits)[1];
  assert.deepEqual(["completed", "failed", "awaiting_review", "waiting_for_user"].map((status) => words(status)),
    ["Reviewed", "Failed", "To review", "Waiting for your answer"]);
  assert.equal(words("completed", 0), "No change");
  assert.equal(words("awaiting_review", 1, false), "Decided");
});

test("a file's change is described: created, deleted, moved, binary, mode", () => {
  const file = (fields) => ({ kind: "file", change: "modified", about: "", is_binary: false, base_mode: "644", mode: "644", moved_from: null, moved_to: null, ...fields });
  assert.deepEqual([
    file({}), file({ change: "created", base_mode: null }), file({ change: "deleted", is_binary: true, mode: null }),
    file({ mode: "755" }), file({ change: "created", moved_from: "a/b\u202e.md" }), file({ change: "deleted", moved_to: "c.md" }),
  ].map(describeChange), ["", "new file", "deleted binary file", "permissions 644 → 755", "moved from a/b<U+202E>.md", "moved to c.md"]);
});

test("links are described with their targets, and changes of kind too", () => {
  const words = (fields) => describeChange({ is_binary: false, base_mode: null, mode: "120777", moved_from: null, moved_to: null, ...fields });
  assert.equal(words({ kind: "link", change: "created", about: "new symbolic link → /etc/pas\u202esw" }), "new symbolic link → /etc/pas<U+202E>sw");
  assert.equal(words({ kind: "folder", change: "kind", base_mode: "644", about: "file became a folder" }), "file became a folder");
});

test("two files are one move while both are in the same state", () => {
  const old = { file_path: "a", moved_to: "b", hunk_ids: ["1"], pending: 1, accepted: 0, conflicts: 0 };
  const now = { file_path: "b", moved_from: "a", hunk_ids: ["2"], pending: 1, accepted: 0, conflicts: 0 };
  assert.deepEqual([...movesOf([old, now])], [["b", old]]);
  assert.equal(movesOf([{ ...old, pending: 0, accepted: 1 }, now]).size, 0);
  assert.equal(movesOf([now]).size, 0);
});
