import assert from "node:assert/strict";
import { test } from "node:test";
import { describeCall, describeStatus, emptyJob, withPage } from "../src/review/job-state.js";

let cursor = 0;
const event = (type, data = {}) => ({ cursor: (cursor += 1), type, ts: `2026-03-02T07:40:${String(cursor).padStart(2, "0")}Z`, data });
const page = (status, ...events) => ({ job_id: "j", status, next_cursor: cursor, events });
const after = (...pages) => pages.reduce(withPage, emptyJob("j"));

const SEARCH = { name: "search_project", tool_call_id: "c1", arguments: { query: "onboarding" } };
const FOUND = { name: "search_project", tool_call_id: "c1", ok: true, result_count: 3, error: null, duration_ms: 12 };
const ASKED = { question_id: "q_1", question: "In capitals?" };

test("a job's activity is shown only while a call runs", () => {
  const during = after(page("running", event("job.started"), event("tool.call.requested", SEARCH)));
  assert.equal(describeStatus(during), "searching “onboarding”");
  const then = withPage(during, page("running", event("tool.call.completed", FOUND)));
  assert.equal(describeStatus(then), "Thinking");
  assert.deepEqual(then.steps.map(({ words, phase, aside }) => [words, phase, aside]), [["searching “onboarding”", "done", "3 found · 12 ms"]]);
});

test("a call of any name is described", () => {
  assert.equal(describeCall("constructor", { path: "a" }), "constructor a");
});

test("a question is open until it is answered anywhere or the job ends", () => {
  const asked = after(page("waiting_for_user", event("clarification.requested", ASKED)));
  assert.equal(asked.question.question, "In capitals?");
  assert.equal(withPage(asked, page("running", event("clarification.received", { question_id: "q_1" }))).question, null);
  assert.equal(withPage(asked, page("failed", event("job.failed", { error: "Cancelled by the user." }))).question, null);
});

test("the same events in one page or many give the same state", () => {
  const events = [
    event("job.started"), event("agent.message", { text: "I look." }), event("tool.call.requested", SEARCH), event("tool.call.completed", FOUND),
    event("clarification.requested", ASKED), event("clarification.received"),
    event("diff.generated", { files: [{ hunk_ids: ["a", "b"] }, { hunk_ids: ["c"] }], incomplete: null }),
    event("conflict.detected", { message: "a.md changed" }), event("something.new", { unknown: true }),
  ];
  const whole = after(page("awaiting_review", ...events));
  const pieces = after(...events.map((each) => ({ ...page("awaiting_review", each) })));
  assert.deepEqual(pieces, whole);
  assert.deepEqual(whole.proposed, { hunks: 3, files: 2 });
  assert.equal(whole.conflict, "a.md changed");
});

test("a journal of thousands of events keeps a bounded number of steps, the latest", () => {
  const many = Array.from({ length: 3_000 }, (_, index) => event("agent.message", { text: `word ${index}` }));
  const job = after(page("running", ...many));
  assert.ok(job.steps.length <= 300);
  assert.equal(job.steps.at(-1).words, "word 2999");
});

test("a model's text is one short line without control characters", () => {
  const words = describeCall("read_file", { file_path: `a\n\x1b[31m${"b".repeat(5_000)}`, start_line: 3, end_line: 9 });
  assert.ok(words.length <= 160 && !/[\n\x1b]/.test(words), words);
  assert.equal(describeCall("read_file", { file_path: "notes.md", start_line: 3, end_line: 9 }), "reading notes.md:3–9");
  assert.equal(describeCall("propose_edits", { omitted_bytes: 9_000 }), "proposing edits");
});
