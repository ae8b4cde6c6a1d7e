import assert from "node:assert/strict";
import { test } from "node:test";
import { changedPaths, CheckpointPages } from "../src/review/checkpoint-pages.js";
import { kindOf } from "../src/review/timeline.js";

test("an undo is not listed as a run", () => {
  assert.equal(kindOf({ job_id: "rollback_1", session_id: "sess_1" }), "Undo");
  assert.equal(kindOf({ job_id: "1", session_id: "sess_1" }), "Review job");
  assert.equal(kindOf({ job_id: "1", session_id: "20260301" }), "Run");
});

/** A server with `count` checkpoints, the latest first; each of a file of its own. */
function server(count) {
  const point = (number, state = "") => ({ checkpoint_id: `cp${number}`, state, files: [{ file_path: `f${number}` }] });
  const all = Array.from({ length: count }, (_, index) => point(count - index));
  const asked = [];
  return {
    all, asked, point,
    async checkpoints({ limit, before }) {
      asked.push(before ?? "");
      const from = before ? all.findIndex((each) => each.checkpoint_id === before) + 1 : 0;
      return { checkpoints: all.slice(from, from + limit), more: from + limit < all.length };
    },
  };
}

const ids = ({ list }) => list.map((each) => each.checkpoint_id).join(" ");

test("checkpoints are read page by page, and again only where they changed", async () => {
  const api = server(5);
  const pages = new CheckpointPages({ api, page: 2 });
  await pages.refresh();
  assert.deepEqual([ids(pages), pages.isMore], ["cp5 cp4", true]);
  await pages.next();
  await pages.next();
  assert.deepEqual([ids(pages), pages.isMore], ["cp5 cp4 cp3 cp2 cp1", false]);
  api.all.unshift(api.point(6));
  api.all[4] = api.point(2, "decided");
  api.asked.length = 0;
  await pages.refresh(new Set(["f2"]));
  assert.deepEqual([ids(pages), pages.isMore, api.asked], ["cp6 cp5 cp4 cp3 cp2 cp1", false, ["", "cp3"]]);
  assert.equal(pages.list[4].state, "decided");
  for (const number of [7, 8, 9]) api.all.unshift(api.point(number)); // more than a page: the known list is too old
  await pages.refresh();
  assert.deepEqual([ids(pages), pages.isMore], ["cp9 cp8", true]);
});

test("created, changed and deleted files are known", () => {
  const file = (file_path, rev) => ({ file_path, rev });
  const changed = changedPaths([file("same", 1), file("changed", 1), file("gone", 1)], [file("same", 1), file("changed", 2), file("new", 1)]);
  assert.deepEqual([...changed].sort(), ["changed", "gone", "new"]);
  assert.equal(changedPaths(null, null).size, 0);
});
