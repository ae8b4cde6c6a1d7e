// What is worth a notification. If these fail, the user is disturbed for nothing, or waits for a run that has ended.

import assert from "node:assert/strict";
import { test } from "node:test";
import { newsOf } from "../src/notifications.js";

const tab = (status, more = {}) => ({ id: "t", title: "Fix it", run: "r", status, ...more });
const words = (before, after) => newsOf([before], [after]).map((each) => each.words);

test("the end of a run and a question are news", () => {
  assert.deepEqual(words(tab("running"), tab("idle")), ["The run has ended."]);
  assert.deepEqual(words(tab("running"), tab("waiting")), ["Waiting for your answer."]);
  assert.deepEqual(words(tab("waiting"), tab("failed")), ["Failed."]);
  assert.deepEqual(words(tab("running"), tab("completed")), ["Contract fulfilled."]);
});

test("what goes on, begins or is seen for the first time is no news", () => {
  assert.deepEqual(words(tab("idle"), tab("running")), []);
  assert.deepEqual(words(tab("waiting"), tab("running")), []);
  assert.deepEqual(words(tab("running"), tab("running")), []);
  assert.deepEqual(newsOf([], [tab("idle")]), []);
});

test("characters that change the order of a text are taken out of the title", () => {
  const [{ title }] = newsOf([tab("running")], [tab("idle", { title: "a\u202eb" })]);
  assert.equal(title.includes("\u202e"), false);
});
