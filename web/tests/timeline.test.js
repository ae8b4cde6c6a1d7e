import assert from "node:assert/strict";
import { test } from "node:test";
import { kindOf, when } from "../src/review/timeline.js";

test("when a run was is said as one would say it", () => {
  const now = new Date(2026, 2, 1, 0, 5).getTime();
  assert.equal(when(new Date(2026, 2, 1, 0, 2).getTime(), now), "00:02");
  assert.equal(when(new Date(2026, 1, 28, 18, 3).getTime(), now), "yesterday 18:03");
  assert.equal(when(new Date(2026, 0, 12, 9, 30).getTime(), now), "12 Jan 09:30");
  assert.equal(when(new Date(2024, 2, 12).getTime(), now), "12 Mar 2024");
});

test("an undo is no run", () => {
  assert.equal(kindOf({ job_id: "rollback_1", session_id: "sess_1" }), "Undo");
  assert.equal(kindOf({ job_id: "1", session_id: "sess_1" }), "Review job");
  assert.equal(kindOf({ job_id: "1", session_id: "20260301" }), "Run");
});
