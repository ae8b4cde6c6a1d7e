import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  addEvent, addHistory, addSoFar, cutBefore, divideQueue, emptyTranscript, fromSnapshot, keptAtEnd, versionsOf, withSubagent,
} from "../src/transcript.js";

const user = (id, content, at = "") => ({ role: "user", id, content, timestamp: at });
const assistant = (id, text, more = {}) => ({ role: "assistant", id, content: [{ type: "text", text }], ...more });
const delta = (messageId, given, type = "text_delta") => ({
  type: "message_update", messageId, assistantMessageEvent: { type, delta: given },
});

/** The transcript after events, each [seq, event], of run "r". */
const after = (transcript, ...events) => events.reduce((each, [seq, event]) => addEvent(each, "r", seq, event), transcript);

test("a streamed answer renders like the complete one", () => {
  const growing = after(
    emptyTranscript(),
    [1, { type: "message_end", message: user("u", "hello") }],
    [1, { type: "message_start", message: { role: "assistant", id: "a", content: [] } }],
    [1, delta("a", "I think.", "thinking_delta")],
    [1, delta("a", "Hel")],
    [1, delta("a", "lo.")],
  );
  assert.deepEqual(growing.live.parts, [{ type: "thinking", text: "I think." }, { type: "text", text: "Hello." }]);
  const done = after(growing, [2, { type: "message_end", message: assistant("a", "Hello.") }]);
  assert.equal(done.live, null);
  assert.deepEqual(done.entries.map((entry) => entry.id), ["u", "a"]);
});

test("what Newel tells the model is not shown as words of the user", () => {
  const decided = user("decided_1", "The user has kept 2 hunks.");
  const ended = user("ended_1", "The command in the background has ended.");
  const { entries } = fromSnapshot({ messages: [user("u1", "edit"), decided, ended] });
  assert.deepEqual(entries.map((entry) => entry.kind), ["user", "newel", "newel"]);
});

test("a version of a message that Newel tells something before stays one of its versions", () => {
  const wentBack = fromSnapshot({ messages: [user("u1", "edit"), assistant("a1", "Done.")], branches: [{ after: "a1", messages: ["u2"] }] });
  const told = after(wentBack, [1, { type: "message_end", message: user("decided_1", "The user has undone a run.") }]);
  assert.deepEqual(keptAtEnd(told), ["u2"]);
  const said = after(told, [2, { type: "message_end", message: user("u3", "again") }]);
  assert.deepEqual(versionsOf(said, "u3"), ["u2", "u3"]);
  assert.deepEqual(keptAtEnd(said), []);
});

test("a durable event that arrives twice is shown once", () => {
  const said = [1, { type: "message_end", message: user("u", "hello") }];
  const notice = [2, { type: "notice", level: "info", message: "A worktree was made.", timestamp: "1" }];
  const once = after(emptyTranscript(), said, notice);
  assert.deepEqual(after(once, said, notice), once);
});

test("deltas of an unknown message are ignored", () => {
  assert.equal(after(emptyTranscript(), [0, delta("gone", "x")]).live, null);
});

test("a retried request starts its answer again", () => {
  const transcript = after(
    emptyTranscript(),
    [0, { type: "message_start", message: { role: "assistant", id: "a", content: [] } }],
    [0, delta("a", "half of")],
    [1, { type: "retry", attempt: 1, maxAttempts: 3, delay: 2, reason: "Overloaded.", timestamp: "2" }],
    [1, delta("a", "all")],
  );
  assert.deepEqual(transcript.live.parts, [{ type: "text", text: "all" }]);
  assert.equal(transcript.entries[0].kind, "retry");
});

test("a tool's output streams, and its result replaces it", () => {
  const start = { type: "tool_execution_start", toolCallId: "c", toolName: "bash", args: {}, timestamp: "1" };
  const running = after(
    emptyTranscript(),
    [1, start],
    [1, { type: "tool_execution_update", toolCallId: "c", delta: "line 1\n" }],
    [1, { type: "tool_execution_update", toolCallId: "c", delta: "line 2\n" }],
  );
  assert.deepEqual([running.calls.c.working, running.calls.c.output], [true, "line 1\nline 2\n"]);
  const end = { type: "tool_execution_end", toolCallId: "c", toolName: "bash", result: "all", isError: false, duration: 7 };
  const message = { role: "toolResult", id: "t", toolCallId: "c", toolName: "bash", output: "all", isError: false, duration: 7 };
  const done = after(running, [2, end], [3, { type: "message_end", message }]);
  assert.equal(done.calls.c.working, false);
  assert.deepEqual([done.calls.c.result.output, done.calls.c.result.duration], ["all", 7]);
  assert.deepEqual(done.entries, []);
  assert.equal(fromSnapshot({ messages: [message] }).calls.c.result.duration, 7);
});

test("a running tool's output takes bounded memory", () => {
  let transcript = emptyTranscript();
  for (let count = 0; count < 30; count += 1) {
    transcript = after(transcript, [0, { type: "tool_execution_update", toolCallId: "c", delta: "x".repeat(10_000) }]);
  }
  assert.ok(transcript.calls.c.output.length <= 64 * 1024);
});

test("streaming calls are distinguished by their index", () => {
  const piece = (index, given) => ({
    type: "message_update", messageId: "a", assistantMessageEvent: { type: "toolcall_delta", index, ...given },
  });
  const { live } = after(
    emptyTranscript(),
    [0, { type: "message_start", message: { role: "assistant", id: "a", content: [] } }],
    [0, piece(0, { name: "read" })],
    [0, piece(1, { name: "bash", delta: "{" })],
    [0, piece(0, { delta: '{"file' })],
  );
  assert.deepEqual(live.parts.map((part) => [part.name, part.text]), [["read", '{"file'], ["bash", "{"]]);
});

test("a late reader gets the current state, which replaces the old one", () => {
  const transcript = addSoFar(emptyTranscript(), { message: assistant("a", "so far"), outputs: { c: "line" } });
  assert.deepEqual(transcript.live.parts, [{ type: "text", text: "so far" }]);
  assert.deepEqual([transcript.calls.c.working, transcript.calls.c.output], [true, "line"]);
  assert.equal(addSoFar(transcript, {}).live, null);
});

test("the reason of a run's end is shown once", () => {
  const failed = assistant("a", "", { stopReason: "error", errorMessage: "Refused." });
  const error = after(
    emptyTranscript(),
    [1, { type: "message_end", message: failed }],
    [2, { type: "error", code: "provider_error", message: "Refused." }],
    [3, { type: "agent_end", reason: "error", message: "Refused." }],
  );
  assert.deepEqual(error.entries.map((entry) => entry.kind), ["assistant"]);
  const stopped = after(
    emptyTranscript(),
    [1, { type: "message_end", message: assistant("a", "half", { stopReason: "aborted" }) }],
    [2, { type: "agent_end", reason: "aborted", message: "Stopped." }],
  );
  assert.deepEqual(stopped.entries.map((entry) => entry.kind), ["assistant"]);
  const graceful = after(emptyTranscript(), [1, { type: "agent_end", reason: "stopped", message: "Stopped before the next request." }]);
  assert.equal(graceful.entries[0].text, "Stopped before the next request.");
});

test("an acceptance command's end updates its entry", () => {
  const { entries } = after(
    emptyTranscript(),
    [1, { type: "acceptance_start", command: "pytest -q", timestamp: "1" }],
    [2, { type: "acceptance_end", command: "pytest -q", passed: true, output: "12 passed", duration: 5, timestamp: "2" }],
  );
  assert.deepEqual(entries.map((entry) => [entry.kind, entry.passed]), [["acceptance", true]]);
});

test("earlier messages are prepended without duplicates, with their results", () => {
  const transcript = fromSnapshot({ messages: [user("u2", "second")], more: true });
  const older = [
    user("u1", "first"),
    { role: "toolResult", id: "t", toolCallId: "c", toolName: "read", output: "text", isError: false },
    user("u2", "second"),
  ];
  const all = addHistory(transcript, older, false);
  assert.deepEqual(all.entries.map((entry) => entry.id), ["u1", "u2"]);
  assert.equal(all.calls.c.result.output, "text");
  assert.equal(all.more, false);
});

test("all fields of a snapshot may be missing, as defaults are omitted on the wire", () => {
  assert.deepEqual(fromSnapshot({ messages: [] }), { ...emptyTranscript(), ready: true });
});

test("an edited message removes what followed it", () => {
  const transcript = fromSnapshot({ messages: [user("u1", "a"), user("u2", "b"), user("u3", "c")] });
  assert.deepEqual(cutBefore(transcript, "u2").entries.map((entry) => entry.id), ["u1"]);
  assert.equal(cutBefore(transcript, "none"), transcript);
});

test("what did not fail is a notice or a warning, and no failed run", () => {
  for (const [level, shown] of [["info", "info"], ["warning", "warning"], ["error", "error"], [undefined, "error"]]) {
    const { entries } = after(emptyTranscript(), [1, { type: "error", code: "progress", message: "Said.", level }]);
    assert.deepEqual(entries.map((entry) => entry.level ?? entry.kind), [shown]);
  }
});

test("messages are in the order of the journal, whatever their times", () => {
  const transcript = after(
    emptyTranscript(),
    [1, { type: "message_end", message: user("u1", "first", "1") }],
    [2, { type: "message_end", message: assistant("a1", "one", { timestamp: "2" }) }],
    [3, { type: "message_end", message: user("u2", "second", "1.5") }], // sent while the answer was written
  );
  assert.deepEqual(transcript.entries.map((entry) => entry.id), ["u1", "a1", "u2"]);
  const read = fromSnapshot({ messages: transcript.entries.map((entry) => entry.message) });
  assert.deepEqual(read.entries.map((entry) => entry.id), ["u1", "a1", "u2"]);
});

test("a run's notices are in their place, also when loaded later", () => {
  const failed = assistant("a", "", { stopReason: "error", errorMessage: "Refused" });
  const retry = (attempt) => ({ type: "retry", attempt, maxAttempts: 3, delay: 1, reason: "Refused", timestamp: "2" });
  const events = [
    [1, { type: "message_end", message: user("u", "hello") }], [2, retry(2)], [3, retry(3)],
    [4, { type: "message_end", message: failed }], [5, { type: "error", code: "provider_error", message: "Refused" }],
    [6, { type: "agent_end", reason: "error", message: "Refused" }],
  ];
  const seen = after(emptyTranscript(), ...events).entries;
  assert.deepEqual(seen.map((entry) => entry.kind), ["user", "retry", "assistant"]);
  assert.deepEqual([seen[1].attempt, seen[1].outcome], [3, "failed"]);
  const told = [retry(2), retry(3)].map((event) => ({ after: "u", event }));
  told.push(...events.slice(4).map(([, event]) => ({ after: "a", event })));
  const read = fromSnapshot({ messages: [user("u", "hello"), failed], told });
  assert.deepEqual(read.entries.map(({ kind, attempt, outcome }) => [kind, attempt, outcome]),
    seen.map(({ kind, attempt, outcome }) => [kind, attempt, outcome]));
});

test("a message that a run has taken is no longer queued", () => {
  const transcript = fromSnapshot({ messages: [], queue: [{ message: user("u1", "a"), held: false }, { message: user("u2", "b"), held: true }] });
  const taken = after(transcript, [1, { type: "message_end", message: user("u1", "a") }]);
  assert.deepEqual(taken.queue.map((each) => each.message.id), ["u2"]);
});

const task = { role: "assistant", id: "t", content: [{ type: "toolCall", id: "c", name: "task", arguments: { description: "look" } }] };
const nested = (event) => ({ type: "tool_execution_update", toolCallId: "c", delta: "", event });
const bashCall = { role: "assistant", id: "n", content: [{ type: "toolCall", id: "b", name: "bash", arguments: { command: "ls" } }] };

test("a subagent that was seen at work looks like one whose session was loaded", () => {
  const result = { role: "toolResult", id: "br", toolCallId: "b", toolName: "bash", output: "a.py" };
  const begun = after(
    emptyTranscript(),
    [1, { type: "message_end", message: task }],
    [2, { type: "tool_execution_start", toolCallId: "c", toolName: "task", args: {} }],
    [3, nested({ type: "message_end", message: bashCall })],
    [4, nested({ type: "tool_execution_start", toolCallId: "b", toolName: "bash", args: {} })],
  );
  assert.ok(begun.calls.c.nested.calls.b.working);
  assert.equal(begun.calls.b, undefined);
  const seen = after(
    begun,
    [5, nested({ type: "message_end", message: result })],
    [6, { type: "message_end", message: { role: "toolResult", id: "cr", toolCallId: "c", toolName: "task", output: "Done." } }],
  );
  const loaded = withSubagent(after(emptyTranscript(), [1, { type: "message_end", message: task }]), "c", [bashCall, result]);
  assert.deepEqual(seen.calls.c.nested.entries, loaded.calls.c.nested.entries);
  assert.deepEqual(seen.calls.c.nested.calls.b.result, loaded.calls.c.nested.calls.b.result);
  assert.equal(seen.calls.c.nested.calls.b.working, false);
});

test("a call of a subagent that is cut off is not running any more", () => {
  const cut = after(
    emptyTranscript(),
    [1, { type: "message_end", message: task }],
    [2, nested({ type: "message_end", message: bashCall })],
    [3, nested({ type: "tool_execution_start", toolCallId: "b", toolName: "bash", args: {} })],
    [4, { type: "message_end", message: { role: "toolResult", id: "cr", toolCallId: "c", toolName: "task", output: "Interrupted", isError: true } }],
  );
  assert.equal(cut.calls.c.nested.calls.b.working, false);
});

test("an event of a subagent that arrives twice is shown once", () => {
  const told = [2, nested({ type: "error", code: "x", message: "Failed.", timestamp: "1" })];
  const once = after(emptyTranscript(), [1, { type: "message_end", message: task }], told);
  assert.deepEqual(after(once, told), once);
});

test("the todo list is that of its last call, also where the messages with it are not loaded", () => {
  const items = [{ text: "Read", status: "done" }];
  const set = (more) => ({ type: "tool_execution_end", toolCallId: "d", toolName: "todo", result: "", details: { items }, ...more });
  assert.deepEqual(after(emptyTranscript(), [1, set({})]).todo, items);
  assert.deepEqual(after(emptyTranscript(), [1, set({ isError: true })]).todo, []);
  assert.deepEqual(fromSnapshot({ messages: [], todo: items }).todo, items);
});

test("messages wait above the box only while something is answered", () => {
  const queue = [{ message: user("q1", "next"), held: false }, { message: user("q2", "later"), held: false }];
  const sending = { id: "p", text: "sending", state: "sending" };
  const failed = { id: "f", text: "failed", state: "failed" };
  const ids = (items) => items.map(({ id, message }) => id ?? message.id);
  const divided = (transcript, busy) => {
    const { queued, next } = divideQueue(transcript, [sending, failed], { busy });
    return [ids(queued), ids(next)];
  };
  const asked = fromSnapshot({ messages: [user("u", "hello")], queue });
  assert.deepEqual(divided(asked, true), [["q1", "q2", "p"], ["f"]]);
  const called = fromSnapshot({ messages: [user("u", "hello"), assistant("a", "", { stopReason: "toolUse" })], queue });
  assert.deepEqual(divided(called, true), [["q1", "q2", "p"], ["f"]]);
  const answered = fromSnapshot({ messages: [user("u", "hello"), assistant("a", "Hi.", { stopReason: "stop" })], queue });
  assert.deepEqual(divided(answered, true), [["q2"], ["q1", "p", "f"]]); // the run takes it at once
  const held = fromSnapshot({ messages: [user("u", "hello")], queue: queue.map((each) => ({ ...each, held: true })) });
  assert.deepEqual(divided(held, false), [["q1", "q2"], ["p", "f"]]);
});
