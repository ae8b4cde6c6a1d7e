import assert from "node:assert/strict";
import { test } from "node:test";
import { ReviewApi } from "../src/review/api.js";
import { comparePaths } from "../src/review/path-order.js";

const SORTED = ["A.md", "a.md", "f1", "f2", "f10", "f100", "src/b2/x", "src/b10/a", "src/c", "src-old/a"];
const files = (paths) => paths.map((file_path) => ({ file_path }));

test("files are in natural order, those of a folder together, and equal names in one order only", () => {
  assert.deepEqual(SORTED.toReversed().sort(comparePaths), SORTED);
  assert.deepEqual(["f01", "f1"].sort(comparePaths), ["f1", "f01"].sort(comparePaths));
});

test("each list of the review has the natural order", async () => {
  const api = new ReviewApi();
  const given = { files: files(["f10", "f2"]), conflicts: files(["f10", "f2"]) };
  api.get = api.post = async (path) => (path === "checkpoints" ? { checkpoints: [given] } : path.endsWith("/rollback") ? { ...given, buffers: [] } : given);
  const [list] = (await api.checkpoints()).checkpoints;
  for (const answer of [list, await api.pending(), await api.checkpoint("c"), await api.rollback("c", {}), await api.undoRun("c", {})]) {
    assert.deepEqual(answer.files, files(["f2", "f10"]));
    assert.deepEqual(answer.conflicts, files(["f2", "f10"]));
  }
});
