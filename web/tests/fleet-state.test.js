// How fleets are described. If these fail, a user reads a wrong state, or the wrong cost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { describeSpending, describeStates, describeWorkers, NO_USAGE, ordered, statusOf, titleOf, withUsage } from "../src/fleet/fleet-state.js";

test("a fleet runs while a job does, waits while one does, and else has failed if one has", () => {
  assert.equal(statusOf({ running: 1, failed: 3, completed: 9 }), "running");
  assert.equal(statusOf({ queued: 1, failed: 3 }), "queued");
  assert.equal(statusOf({ completed: 9, stopped: 1, failed: 1 }), "failed");
  assert.equal(statusOf({ completed: 9, cancelled: 1 }), "cancelled");
  assert.equal(statusOf({ completed: 9 }), "completed");
});

test("states come in the order in which they need a look, and unknown ones last", () => {
  assert.deepEqual(ordered({ paused: 1, completed: 5, failed: 0, running: 2 }), [["running", 2], ["completed", 5], ["paused", 1]]);
  assert.equal(describeStates({ completed: 1200, running: 2 }), "2 running · 1,200 completed");
});

test("workers that are silent do not count", () => {
  assert.equal(describeWorkers([{ alive: false, running: 0, slots: 8 }]), "No worker is running. `newel worker` starts one.");
  assert.equal(describeWorkers([{ alive: true, running: 3, slots: 8 }, { alive: true, running: 1, slots: 1 }]), "2 workers, 4 of 9 slots in use");
});

test("a budget is shown with its limits, and nothing without one", () => {
  assert.equal(describeSpending(null), "");
  assert.equal(describeSpending({ cost: 0, tokens: 1200, maxCost: 5, maxTokens: null }), "$0 of $5.00 · 1.2k tokens");
  assert.equal(describeSpending({ cost: 0.5, tokens: 1200, maxCost: null, maxTokens: 50_000 }), "$0.500 · 1.2k of 50k tokens");
});

test("a title is one line, and hides no character", () => {
  assert.equal(titleOf({ contract: { text: "\nType it\u202e\nand more" }, values: { a: "x", b: "y" } }), "Type it<U+202E> (a=x, b=y)");
  assert.equal([...titleOf({ contract: { text: "x".repeat(900) } })].length, 200);
});

test("the usage of a job has the answers of its model and of its judge", () => {
  const answer = { type: "message_end", message: { role: "assistant", usage: { input: 100, output: 10, cacheRead: 40 }, cost: 0.25 } };
  const verdict = { type: "evaluation", usage: { input: 50, output: 5 } };
  const said = { type: "message_end", message: { role: "user" } };
  assert.deepEqual([said, answer, verdict, { type: "turn_start" }].reduce(withUsage, NO_USAGE), { input: 150, output: 15, cached: 40, cost: 0.25 });
});
