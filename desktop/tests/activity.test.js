import assert from "node:assert/strict";
import { test } from "node:test";

import { Activity } from "../src/activity.js";

const tab = (/** @type {string} */ status, more = {}) => ({ id: "t1", title: "Fix the importer", status, ...more });

test("a question and an end are told once, and the first list is not", () => {
  const activity = new Activity();
  assert.deepEqual(activity.update([tab("waiting")]), []);
  assert.equal(activity.waiting, 1);
  assert.deepEqual(activity.update([tab("running")]), []);
  assert.deepEqual(activity.update([tab("waiting")]), [{ tab: "t1", title: "Fix the importer", body: "A question waits for your answer.", isQuestion: true }]);
  assert.deepEqual(activity.update([tab("waiting")]), []);
  assert.deepEqual(activity.update([tab("idle")]).map(({ body }) => body), ["The answer is ready."]);
  assert.deepEqual(activity.update([tab("idle")]), []);
  assert.equal(activity.waiting, 0);
});

test("a run that is too short to be seen running is told, too", () => {
  const activity = new Activity();
  activity.update([tab("idle", { run: null })]);
  assert.equal(activity.update([tab("idle", { run: "r1" })]).length, 1);
  assert.equal(activity.update([tab("idle", { run: "r1" })]).length, 0);
  assert.equal(activity.update([tab("running", { run: "r2" })]).length, 0);
  assert.equal(activity.update([tab("idle", { run: "r2" })]).length, 1);
});

test("each end of an agent is named, with its reason", () => {
  for (const [status, words] of Object.entries({ completed: "The contract is fulfilled.", stopped: "The agent has stopped.", failed: "The run has failed." })) {
    const activity = new Activity();
    activity.update([tab("running")]);
    const [notice] = activity.update([tab(status, { reason: "max  turns\n" })]);
    assert.equal(notice?.body, `${words} max turns`);
    assert.equal(notice.isQuestion, false);
  }
});

test("a tab that is new, closed, or of an unknown state is no news", () => {
  const activity = new Activity();
  activity.update([tab("running")]);
  assert.deepEqual(activity.update([tab("running"), { id: "t2", title: "x", status: "idle" }]), []);
  assert.deepEqual(activity.update([]), []);
  assert.deepEqual(activity.update([tab("idle")]), []);
  activity.update([tab("running")]);
  assert.deepEqual(activity.update([tab("dreaming")]), []);
  const [waits] = activity.update([{ id: "t3", title: "", status: "waiting" }]);
  assert.equal(waits?.title, "Newel");
});

test("titles and reasons of models are plain, short text", () => {
  const activity = new Activity();
  activity.update([tab("running")]);
  const [notice] = activity.update([{ id: "t1", title: `\u202eevil\u001b[31m ${"x".repeat(500)}`, status: "failed", reason: "y".repeat(5000) }]);
  assert.match(notice?.title ?? "", /^evil x{75}…$/);
  assert.ok((notice?.body.length ?? 999) < 250);
});
