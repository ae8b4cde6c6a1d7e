// If these fail, a job that proposes a hunk anew ends and nobody is told.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Revisions, answerOf, revisionOf } from "../src/review/revisions.js";

const HUNK = { hunk_id: "h_1", seen_id: "h_2.h_1" };
const JOB = { job_id: "job", file_path: "a.md", hunk_id: "h_2.h_1", status: "queued", instruction: "In German" };

function following(status) {
  let state = { revising: [], answers: [] };
  const review = { get: () => state, put: (fields) => (state = { ...state, ...fields }) };
  const job = { status, error: null, summary: "Capitals are easier to find.", proposed_edits: [], revise: { file_path: "a.md", hunk_id: "h_2.h_1" } };
  const revisions = new Revisions({ api: { job: async () => job }, review, announce: () => {} });
  return { revisions, review, job };
}

const settle = () => new Promise((resolve) => setTimeout(resolve));

test("a job that ends before the server lists it leaves its answer at the hunk", async () => {
  const { revisions, review } = following("completed");
  revisions.started(JOB);
  assert.equal(revisionOf(review.get(), "a.md", HUNK), JOB);
  revisions.take([]);
  await settle();
  assert.equal(revisionOf(review.get(), "a.md", HUNK), null);
  assert.equal(answerOf(review.get(), "a.md", HUNK), "Capitals are easier to find.");
  assert.equal(answerOf(review.get(), "a.md", { ...HUNK, seen_id: "h_3.h_1" }), "", "another version of the hunk");
});

test("a list that is older than the job does not end it", async () => {
  const { revisions, review, job } = following("running");
  revisions.started(JOB);
  revisions.take([]);
  await settle();
  assert.equal(revisionOf(review.get(), "a.md", HUNK), JOB);
  job.status = "completed";
  revisions.take([]);
  await settle();
  assert.equal(answerOf(review.get(), "a.md", HUNK), "Capitals are easier to find.");
});
