// How far the review has come: its progress, the next undecided hunk, and what is left to save. Pure functions.

import { formatNumber, pluralize } from "../format.js";
import { comparePaths } from "./path-order.js";

/** Whether all hunks are decided, and there is something to save. `pending` are PendingFiles. */
export const isReviewed = (pending) => (pending ?? []).length > 0 && pending.every((file) => file.pending === 0);

/** Whether all hunks of a file are decided. One with only the user's own lines had none to decide. */
export const isFileReviewed = ({ pending, accepted, rejected, applied }) => pending === 0 && accepted + rejected + applied > 0;

/** The files with accepted changes; once all are reviewed, also those with only the user's own lines. */
export const filesToSave = (pending) =>
  (pending ?? []).filter((file) => (isReviewed(pending) ? file.unsaved : file.accepted) > 0);

/** The label of the button that saves them: "Save accepted changes in 2 files", "All reviewed: Save 4 files". */
export function saveLabel(pending) {
  const count = filesToSave(pending).length;
  if (count === 0) return "Save accepted changes";
  return isReviewed(pending) ? `All reviewed: Save ${pluralize(count, "file")}` : `Save accepted changes in ${pluralize(count, "file")}`;
}

/** "12 of 40 decided"; "" if there is nothing to decide. */
export const describeProgress = ({ decided, total }) => (total > 0 ? `${formatNumber(decided)} of ${formatNumber(total)} decided` : "");

/** What to announce when the last hunk was decided; "" if that did not just happen. */
export function describeEnd(before, pending) {
  const hadUndecided = (before ?? []).some((file) => file.pending > 0);
  if (!hadUndecided || !pending || pending.some((file) => file.pending > 0)) return "";
  const count = filesToSave(pending).length;
  return `All reviewed. ${count > 0 ? `${pluralize(count, "file")} to save.` : "Nothing to save."}`;
}

/** The next wanted item after the one at `index` (`by` −1: before it), around the end; that one itself comes last. */
export function nextOf(items, index, by, isWanted) {
  const at = Math.max(index, 0);
  const ordered = by > 0 ? [...items.slice(index + 1), ...items.slice(0, index + 1)] : [...items.slice(0, at).reverse(), ...items.slice(at).reverse()];
  return ordered.find(isWanted);
}

/** The next file after `path` (`by` −1: before it) with undecided hunks, around the end; null if no other has any. */
export function nextUndecidedFile(pending, path, by) {
  const others = (pending ?? []).filter((file) => file.pending > 0 && file.file_path !== path);
  const isBehind = (file) => comparePaths(file.file_path, path) > 0;
  const next = by > 0 ? others.find(isBehind) ?? others[0] : others.findLast((file) => !isBehind(file)) ?? others.at(-1);
  return next?.file_path ?? null;
}
