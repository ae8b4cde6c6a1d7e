// If these fail, a window shows a review as it was, or asks the server more than it need.

import assert from "node:assert/strict";
import { test } from "node:test";

import { countPending, createReview } from "../src/review/review-store.js";

/** A server with files, and what it was asked for. */
function server(files) {
  const asked = [];
  return {
    asked,
    files,
    pending: async () => {
      asked.push("pending");
      return { files: Object.values(files).map(({ file_path }) => ({ file_path, pending: 1, conflicts: 0 })), runs: [] };
    },
    file: async (path) => {
      asked.push(path);
      if (!files[path]) throw new Error(`${path} is gone.`);
      return files[path];
    },
  };
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 120));

test("a change is read once, and only of files that somebody holds", async () => {
  const api = server({ a: { file_path: "a", rev: 1 }, b: { file_path: "b", rev: 1 } });
  const review = createReview({ api });
  const release = review.hold("a");
  review.touch(["a", "b"]);
  review.touch(["a"]);
  await settled();
  assert.deepEqual(api.asked, ["pending", "a"]);
  assert.equal(review.get().files.a.rev, 1);
  release();
  review.touch();
  await settled();
  assert.deepEqual(api.asked, ["pending", "a", "pending"]);
});

test("an answer that comes late does not bring an older state back, and of files that nobody holds nothing is kept", async () => {
  const review = createReview({ api: server({}) });
  const release = review.hold("a");
  for (const rev of [3, 2]) await review.take("a", Promise.resolve({ file_path: "a", rev }));
  assert.equal(review.get().files.a.rev, 3);
  release();
  await review.take("b", Promise.resolve({ file_path: "b", rev: 1 }));
  assert.deepEqual(review.get().files, {});
});

test("what this window did itself is not read again when the server tells of it, before its answer or after", async () => {
  const api = server({ a: { file_path: "a", rev: 2 } });
  const review = createReview({ api });
  const answer = Promise.withResolvers();
  review.hold("a");
  const taken = review.take("a", answer.promise);
  review.touch(["a"], { a: 2 });
  await settled();
  answer.resolve({ file_path: "a", rev: 2 });
  await taken;
  review.touch(["a"], { a: 2 });
  await settled();
  assert.deepEqual(api.asked, ["pending", "pending"]);
  review.touch(["a"], { a: 3 });
  await settled();
  assert.deepEqual(api.asked.slice(2), ["pending", "a"]);
});

test("what another window did meanwhile is read once the answer is there, also if that is a refusal", async () => {
  const refused = () => {
    throw new Error("refused");
  };
  for (const end of [() => ({ file_path: "a", rev: 2 }), refused]) {
    const review = createReview({ api: server({ a: { file_path: "a", rev: 3 } }) });
    review.hold("a");
    const taken = review.take("a", settled().then(end)).catch(() => {});
    review.touch(["a"], { a: 3 });
    await taken;
    await settled();
    assert.equal(review.get().files.a.rev, 3);
  }
});

test("a file that cannot be read says so, keeps what was known, and is read as soon as it can be", async () => {
  const api = server({ a: { file_path: "a", rev: 1, content: "known" } });
  const review = createReview({ api });
  review.hold("a");
  await settled();
  const file = api.files.a;
  delete api.files.a;
  review.touch();
  await settled();
  assert.match(review.get().files.a.problem, /gone/);
  assert.equal(review.get().files.a.content, "known");
  assert.deepEqual(review.get().pending, []);
  api.files.a = file;
  api.onLink(true);
  await settled();
  assert.deepEqual(review.get().files.a, file);
});

test("what waits is counted", () => {
  const files = [{ pending: 2, conflicts: 1 }, { pending: 3, conflicts: 0 }];
  assert.deepEqual(countPending(files), { files: 2, hunks: 5, conflicts: 1 });
  assert.deepEqual(countPending(null), { files: 0, hunks: 0, conflicts: 0 });
});
