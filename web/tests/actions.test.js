// If these fail, a message that the server has refused is lost by a reload of the page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createActions } from "../src/actions.js";
import { createStore } from "../src/store.js";

const tick = () => new Promise((resolve) => setImmediate(resolve));
const BEGUN = { id: "m0", role: "user", content: "earlier", timestamp: "" };

/** The storage of a window; returns its entries. */
function storage(t) {
  const stored = new Map();
  globalThis.window = { sessionStorage: { getItem: (key) => stored.get(key) ?? null, setItem: (key, value) => stored.set(key, value), removeItem: (key) => stored.delete(key) } };
  t.after(() => delete globalThis.window);
  return stored;
}

/** A page with one chat; `answer(fields)` is the server's answer to a message. */
function page(answer) {
  const store = createStore();
  const sent = [];
  const connection = {
    request: async (type, fields) => {
      if (type !== "send") return {};
      sent.push(fields.text);
      return answer(fields);
    },
  };
  const actions = createActions({ connection, store, toasts: { failed() {} }, show() {}, refresh() {} });
  store.dispatch({ type: "welcome", server: "s", tabs: [{ id: "t", kind: "chat", title: "Chat", status: "idle" }] });
  store.dispatch({ type: "page/watch", tab: "t" });
  store.dispatch({ type: "snapshot", tab: "t", snapshot: { messages: [BEGUN] } });
  actions.resendUnacknowledged();
  return { actions, sent, pending: () => (store.get().pending.t ?? []).map(({ text, state }) => [text, state]), entries: () => store.get().transcripts.t.entries.length };
}

const refuses = () => Promise.reject(new Error("The disk is full."));
const takes = () => Promise.resolve({});

test("a refused message is there after a reload, until it is sent or discarded", async (t) => {
  const stored = storage(t);
  const first = page(refuses);
  first.actions.send("t", "an hour of work", { before: "m0" });
  await tick();
  const second = page(takes);
  await tick();
  assert.deepEqual([second.sent, second.pending(), second.entries()], [[], [["an hour of work", "failed"]], 1]);
  const { message } = JSON.parse(stored.get("newel:outbox"))[0];
  second.actions.resend("t", message);
  await tick();
  assert.deepEqual(second.sent, ["an hour of work"]);
  assert.deepEqual(page(takes).pending(), []);
});

test("a discarded message does not come back", async (t) => {
  const stored = storage(t);
  const first = page(refuses);
  first.actions.send("t", "no");
  await tick();
  first.actions.discard("t", JSON.parse(stored.get("newel:outbox"))[0].message.id);
  assert.deepEqual(page(takes).pending(), []);
});

test("a message that was not answered is sent again", async (t) => {
  storage(t);
  page(() => new Promise(() => {})).actions.send("t", "hello");
  assert.deepEqual(page(takes).sent, ["hello"]);
});
