// If these fail, a window shows an outdated review, or makes needless requests.

import assert from "node:assert/strict";
import { test } from "node:test";

import { countPending, createReview } from "../src/review/review-store.js";

/** A server with files; it records its requests. */
function server(files) {
  const asked = [];
  return {
    asked,
    files,
    pending: async () => {
      asked.push("pending");
      return { files: Object.values(files).map(({ file_path }) => ({ file_path, pending: 1, conflicts: 0, pending_conflicts: 0 })), runs: [] };
    },
    file: async (path) => {
      asked.push(path);
      if (!files[path]) throw new Error(`${path} is gone.`);
      return files[path];
    },
  };
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 120));

test("a change is read once, and only for files in use", async () => {
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

test("a late answer restores no older state, and nothing is kept of files that are not in use", async () => {
  const review = createReview({ api: server({}) });
  const release = review.hold("a");
  for (const rev of [3, 2]) await review.take("a", Promise.resolve({ file_path: "a", rev }));
  assert.equal(review.get().files.a.rev, 3);
  release();
  await review.take("b", Promise.resolve({ file_path: "b", rev: 1 }));
  assert.deepEqual(Object.keys(review.get().files), []);
});

test("a file may have any name: otherwise one that an agent proposes hides all pending changes", async () => {
  const names = ["constructor", "__proto__"];
  const review = createReview({ api: server({}) });
  for (const path of names) {
    assert.equal(review.get().files[path], undefined);
    assert.equal(review.get().waiting[path], undefined);
    const release = review.hold(path);
    await review.take(path, Promise.resolve({ file_path: path, rev: 1 }));
    assert.equal(review.get().files[path].rev, 1);
    assert.equal(review.get().waiting[path], undefined);
    release();
    assert.equal(review.get().files[path], undefined);
  }
});

test("a link that stands for another file shows that one, whatever the revisions of both", async () => {
  const review = createReview({ api: server({}) });
  review.hold("link");
  await review.take("link", Promise.resolve({ file_path: "a", rev: 3 }));
  await review.take("link", Promise.resolve({ file_path: "b", rev: 0 }));
  assert.equal(review.get().files.link.file_path, "b");
});

test("this window's own changes are not read again after their notification", async () => {
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

test("another window's changes are read after the pending answer, even if that is a refusal", async () => {
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

test("an unreadable file says so, keeps its last state, and is read again as soon as possible", async () => {
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

test("pending changes are counted", () => {
  const files = [{ pending: 2, conflicts: 2, pending_conflicts: 1 }, { pending: 3, conflicts: 0, pending_conflicts: 0 }];
  assert.deepEqual(countPending(files), { files: 2, hunks: 5, conflicts: 1 });
  assert.deepEqual(countPending(null), { files: 0, hunks: 0, conflicts: 0 });
});
