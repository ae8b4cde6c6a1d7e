import assert from "node:assert/strict";
import { test } from "node:test";
import { createStore, reduce, initialState } from "../src/store.js";

const tab = (id, more = {}) => ({ id, kind: "chat", title: "Chat", session: "s", status: "idle", ...more });
const welcome = { type: "welcome", server: "one", project: "/p", model: "m", tabs: [tab("t")], servers: [] };
const after = (...frames) => frames.reduce(reduce, initialState());
const readableOutput = (id) => ({ type: "event", tab: "t", run: "r", seq: 1, event: { type: "message_end", message: { role: "user", id, content: "x" } } });

test("a sent message is shown at once, and only once when the conversation has it", () => {
  const message = { id: "m1", text: "hello" };
  const waiting = after(welcome, { type: "page/watch", tab: "t" }, { type: "page/send", tab: "t", message });
  assert.deepEqual(waiting.pending.t.map((each) => [each.text, each.state]), [["hello", "sending"]]);
  const there = reduce(waiting, readableOutput("m1"));
  assert.equal(there.pending.t, undefined);
  assert.deepEqual(there.transcripts.t.entries.map((entry) => entry.id), ["m1"]);
});

test("a failed message keeps its text, and a retry is the same message", () => {
  const message = { id: "m1", text: "hello" };
  const failed = after(
    welcome,
    { type: "page/send", tab: "t", message },
    { type: "page/sendResult", tab: "t", id: "m1", state: "failed" },
  );
  assert.equal(failed.pending.t[0].state, "failed");
  const again = reduce(failed, { type: "page/send", tab: "t", message });
  assert.deepEqual(again.pending.t.map((each) => each.state), ["sending"]);
});

test("a conversation that went to another branch is read anew, also if the connection broke before its snapshot", () => {
  const user = { role: "user", id: "m1", content: "x" };
  const snapshot = { type: "snapshot", tab: "t", snapshot: { messages: [user], run: "r", seq: 3, switches: 1 } };
  const switched = (count) => [tab("t", { switches: count })];
  const state = after({ ...welcome, tabs: switched(1) }, { type: "page/watch", tab: "t" }, snapshot);
  assert.equal(reduce(state, { ...welcome, tabs: switched(1) }).transcripts.t.run, "r");
  const told = reduce(state, { type: "tabs", tabs: switched(2) });
  assert.equal(told.transcripts.t.run, "r");
  assert.equal(reduce(told, { ...welcome, tabs: switched(2) }).transcripts.t.run, null);
});

test("closed tabs leave no state behind", () => {
  const state = after(
    welcome,
    { type: "page/watch", tab: "t" },
    { type: "page/send", tab: "t", message: { id: "m", text: "x" } },
    { type: "tabs", tabs: [tab("other")] },
  );
  assert.deepEqual([state.transcripts, state.pending], [{}, {}]);
});

test("Stop shows at once and ends with the run", () => {
  const stopping = after(
    welcome,
    { type: "tabs", tabs: [tab("t", { status: "running" })] },
    { type: "page/stop", tab: "t", now: false },
  );
  assert.equal(stopping.stopping.t, "soon");
  assert.deepEqual(reduce(stopping, { type: "tabs", tabs: [tab("t")] }).stopping, {});
});

test("a run that follows a stopped one at once can be stopped", () => {
  const running = (run) => ({ type: "tabs", tabs: [tab("t", { status: "running", run })] });
  const stopping = after(welcome, running("one"), { type: "page/stop", tab: "t", now: true });
  assert.deepEqual(reduce(stopping, running("one")).stopping, { t: "now" });
  assert.deepEqual(reduce(stopping, running("two")).stopping, {});
});

test("after a restart of the server a partial message is dropped", () => {
  const state = after(
    welcome,
    { type: "page/watch", tab: "t" },
    { type: "soFar", tab: "t", run: "r", soFar: { message: { role: "assistant", id: "a", content: [] } } },
  );
  assert.ok(state.transcripts.t.live);
  assert.ok(reduce(state, welcome).transcripts.t.live);
  assert.equal(reduce(state, { ...welcome, server: "two" }).transcripts.t.live, null);
});

test("frames of unwatched tabs and of unknown types change nothing", () => {
  const state = after(welcome);
  assert.equal(reduce(state, readableOutput("m")), state);
  assert.equal(reduce(state, { type: "of a newer server" }), state);
});

test("subscribers are notified only of changes", () => {
  const store = createStore();
  let told = 0;
  const stop = store.subscribe(() => {
    told += 1;
  });
  store.dispatch(welcome);
  store.dispatch({ type: "nothing" });
  stop();
  store.dispatch(welcome);
  assert.equal(told, 1);
});
