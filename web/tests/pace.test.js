import assert from "node:assert/strict";
import { test } from "node:test";
import { added, Pace } from "../src/pace.js";

const waits = (interval) => {
  const pace = new Pace();
  for (let now = 0; now < 2_000; now += interval) pace.note(4, now);
  return pace.wait(2_000);
};

test("a text that is read as it comes is drawn with each frame, a flood is not", () => {
  assert.equal(waits(10), 0);
  assert.ok(waits(1) > 0);
});

test("after a flood the next word is drawn at once", () => {
  const pace = new Pace();
  pace.note(60_000, 0);
  assert.ok(pace.wait(1) > 0);
  assert.equal(pace.wait(5_000), 0);
});

test("only pieces of what is being written may wait", () => {
  const piece = { type: "text_delta", delta: "four" };
  assert.equal(added({ type: "event", event: { type: "message_update", assistantMessageEvent: piece } }), 4);
  assert.equal(added({ type: "event", event: { type: "tool_execution_update", delta: "ab" } }), 2);
  assert.equal(added({ type: "event", event: { type: "message_end" } }), null);
  assert.equal(added({ type: "tabs", tabs: [] }), null);
});
