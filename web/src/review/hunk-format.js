// Hunks as text: their lines, place, state and counts.

import { describeWholeFile } from "./change-labels.js";

const linesCache = new WeakMap();

/** The lines that a hunk removes and adds, without line ends. */
export function linesOf(hunk) {
  if (!linesCache.has(hunk)) {
    const lines = hunk.patch.split("\n").slice(1);
    const having = (sign) => lines.filter((line) => line.startsWith(sign)).map((line) => line.slice(1).replace(/\r$/, ""));
    linesCache.set(hunk, { removed: having("-"), added: having("+") });
  }
  return linesCache.get(hunk);
}

/** "line 41", "lines 41–43", "before line 41" for a hunk that only removes. */
export function formatPlace({ start_line: start, end_line: end }) {
  if (end < start) return `before line ${Math.max(start, 1)}`;
  return start === end ? `line ${start}` : `lines ${start}–${end}`;
}

/** Whether a hunk waits for a decision; the user's own lines do only in a conflict. */
export const isUndecided = (hunk) => hunk.state === "pending" && (hunk.origin !== "user" || hunk.conflict);

/** Whether a hunk is worth splitting: only new lines can be told apart. */
export const isSplittable = (hunk) => hunk.kind === "lines" && linesOf(hunk).added.length > 1;

/** Describe the state of a hunk; `file` is as in change-labels.js. */
export function describeHunk(hunk, file = {}) {
  const words = [];
  if (hunk.conflict) words.push("conflict: the file changed here");
  if (hunk.state === "accepted") words.push("accepted, unsaved");
  if (hunk.state === "rejected") words.push("rejected");
  if (hunk.origin === "user") words.push("yours");
  else if (hunk.mine) words.push("with your lines");
  if (hunk.warning) words.push(hunk.warning);
  if (hunk.oversized_hunk) words.push("large");
  if (hunk.kind !== "lines") words.push(describeWholeFile(hunk, file));
  return words.join(" · ");
}

/** The labels of the two ways out of a conflict: the text in review, or the file on disk. */
export const keepLabel = (hunk) => (hunk?.origin === "user" ? KEEP_OWN : "Keep proposal");
export const KEEP_OWN = "Keep my lines";
export const KEEP_FILE = "Keep file";

/** Why a rejection of all hunks left some. */
export const describeSkipped = (count) =>
  count === 1 ? "1 hunk with your own lines was skipped: reject it on its own." : `${count} hunks with your own lines were skipped: reject them one by one.`;

const DECISION_LABELS = { accepted: "accepted", rejected: "rejected", pending: "undecided again", peeled: "without your lines" };

/** Describe a decision that is pending until the connection is back. */
export const describePendingDecision = (choice) => `${DECISION_LABELS[choice]} · pending connection`;

/** Count the hunks by state. `toSave`: hunks that a save would write; `unsaved`: all that are in no file yet. */
export function countHunks(hunks) {
  const count = (is) => hunks.filter(is).length;
  const pending = (hunk) => hunk.state === "pending";
  const isOwn = (hunk) => hunk.origin === "user" && pending(hunk);
  const own = (hunk) => isOwn(hunk) && !hunk.conflict;
  const inConflict = (hunk) => hunk.conflict && hunk.state !== "rejected";
  const accepted = count((hunk) => hunk.state === "accepted");
  const mine = count(own);
  return {
    undecided: count(isUndecided), accepted, mine, toSave: accepted + mine, unsaved: accepted + count(isOwn),
    rejected: count((hunk) => hunk.state === "rejected"), conflicts: count(inConflict), openConflicts: count((hunk) => inConflict(hunk) && pending(hunk)), isOwnConflict: hunks.every((hunk) => !inConflict(hunk) || hunk.origin === "user"),
  };
}

const COMPARED_FIELDS = ["hunk_id", "seen_id", "patch", "state", "origin", "mine", "conflict", "oversized_hunk", "warning", "start_line", "end_line"];

/** A newer view of a file that reuses the objects of unchanged hunks, so that views of them need no redraw. */
export function reuseHunks(view, before) {
  const known = new Map(before.hunks.map((hunk) => [hunk.hunk_id, hunk]));
  const hunks = view.hunks.map((hunk) => {
    const old = known.get(hunk.hunk_id);
    return old && COMPARED_FIELDS.every((name) => old[name] === hunk[name]) ? old : hunk;
  });
  return { ...view, hunks };
}
