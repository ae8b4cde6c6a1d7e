import assert from "node:assert/strict";
import { test } from "node:test";
import { addedCharacters, RenderThrottle } from "../src/render-throttle.js";

/** How long the next drawing waits when four characters came every `interval` ms and the last one took `cost` ms. */
const waits = (interval, cost) => {
  const throttle = new RenderThrottle();
  for (let now = 0; now < 2_000; now += interval) throttle.recordInput(4, now);
  throttle.recordRender(2_000 - cost, 2_000);
  return throttle.delay(2_000);
};

test("readable streams are drawn with each frame, a flood is not", () => {
  assert.ok(waits(20, 3) < 16);
  assert.ok(waits(1, 3) > 16);
});

test("slow drawings are drawn less often, but a flood never seems to stop", () => {
  assert.ok(waits(20, 30) > waits(20, 3));
  assert.ok(waits(1, 3) > waits(1, 1));
  assert.ok(waits(1, 30) <= 250);
});

test("after a flood and after a pause, the next word is drawn at once", () => {
  const throttle = new RenderThrottle();
  throttle.recordInput(60_000, 0);
  throttle.recordRender(0, 5);
  assert.ok(throttle.delay(6) > 0);
  assert.ok(throttle.delay(5_000) <= 0);
});

test("only deltas of a streaming message may be delayed", () => {
  const piece = { type: "text_delta", delta: "four" };
  assert.equal(addedCharacters({ type: "event", event: { type: "message_update", assistantMessageEvent: piece } }), 4);
  assert.equal(addedCharacters({ type: "event", event: { type: "tool_execution_update", delta: "ab" } }), 2);
  assert.equal(addedCharacters({ type: "event", event: { type: "message_end" } }), null);
  assert.equal(addedCharacters({ type: "tabs", tabs: [] }), null);
});
