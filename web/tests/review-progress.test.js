// If these fail, J skips hunks, or the page says that a review has ended which has not.

import assert from "node:assert/strict";
import { test } from "node:test";
import { describeEnd, describeProgress, filesToSave, isFileReviewed, isReviewed, nextOf, nextUndecidedFile, saveLabel } from "../src/review/review-progress.js";

const file = (file_path, counts = {}) => ({ file_path, pending: 0, accepted: 0, rejected: 0, applied: 0, unsaved: 0, ...counts });
const open = file("a", { pending: 2 });
const accepted = file("b", { accepted: 1, unsaved: 1 });
const own = file("c", { unsaved: 1 });

test("a review has ended once every hunk is decided", () => {
  assert.equal(isReviewed(null), false);
  assert.equal(isReviewed([]), false);
  assert.equal(isReviewed([open, accepted]), false);
  assert.equal(isReviewed([accepted, own]), true);
  assert.deepEqual([open, accepted, own].map(isFileReviewed), [false, true, false]); // own lines need no decision
});

test("own lines are saved with the accepted hunks only at the end", () => {
  assert.deepEqual(filesToSave([open, accepted, own]), [accepted]);
  assert.deepEqual(filesToSave([accepted, own]), [accepted, own]);
  assert.equal(saveLabel([open, own]), "Save accepted changes");
  assert.equal(saveLabel([open, accepted, own]), "Save accepted changes in 1 file");
  assert.equal(saveLabel([accepted, own]), "All reviewed: Save 2 files");
});

test("progress is said in numbers", () => {
  assert.equal(describeProgress({ decided: 0, total: 0 }), "");
  assert.equal(describeProgress({ decided: 12, total: 1040 }), "12 of 1,040 decided");
});

test("the end is announced once, when the last hunk is decided", () => {
  assert.equal(describeEnd(null, [accepted]), ""); // loaded
  assert.equal(describeEnd([open], [open, accepted]), "");
  assert.equal(describeEnd([open, accepted], [accepted]), "All reviewed. 1 file to save.");
  assert.equal(describeEnd([open], []), "All reviewed. Nothing to save.");
  assert.equal(describeEnd([accepted], []), ""); // saved
});

test("the next wanted item is found around both ends", () => {
  const items = [1, 2, 3, 4];
  const isEven = (each) => each % 2 === 0;
  assert.equal(nextOf(items, -1, 1, isEven), 2);
  assert.equal(nextOf(items, 1, 1, isEven), 4);
  assert.equal(nextOf(items, 3, 1, isEven), 2);
  assert.equal(nextOf(items, -1, -1, isEven), 4);
  assert.equal(nextOf(items, 1, -1, isEven), 4);
  assert.equal(nextOf(items, 3, -1, isEven), 2);
  assert.equal(nextOf([1, 2, 3], 1, 1, isEven), 2); // itself, if it is the only one
  assert.equal(nextOf([1, 3], 0, -1, isEven), undefined);
});

test("the next undecided file is found in both directions, decided ones are skipped", () => {
  const files = [open, accepted, file("d", { pending: 1 }), file("e", { pending: 1 })];
  assert.equal(nextUndecidedFile(files, "a", 1), "d");
  assert.equal(nextUndecidedFile(files, "e", 1), "a");
  assert.equal(nextUndecidedFile(files, "a", -1), "e");
  assert.equal(nextUndecidedFile(files, "e", -1), "d");
  assert.equal(nextUndecidedFile(files, "c", 1), "d"); // a file without changes
  assert.equal(nextUndecidedFile([file("f2", { pending: 1 }), file("f10", { pending: 1 })], "f3", 1), "f10"); // as they are listed
  assert.equal(nextUndecidedFile([open, accepted], "a", 1), null);
  assert.equal(nextUndecidedFile(null, "a", -1), null);
});
