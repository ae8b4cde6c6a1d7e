// What the patch of a hunk says, for showing it.

import { describeWholeFile } from "./change-labels.js";

const known = new WeakMap();

/** The lines that a hunk takes away and puts in, without their ends. */
export function linesOf(hunk) {
  if (!known.has(hunk)) {
    const lines = hunk.patch.split("\n").slice(1);
    const having = (sign) => lines.filter((line) => line.startsWith(sign)).map((line) => line.slice(1).replace(/\r$/, ""));
    known.set(hunk, { removed: having("-"), added: having("+") });
  }
  return known.get(hunk);
}

/** "line 41", "lines 41–43", "before line 41" for one that has no line of its own. */
export function formatPlace({ start_line: start, end_line: end }) {
  if (end < start) return `before line ${start}`;
  return start === end ? `line ${start}` : `lines ${start}–${end}`;
}

/** What a person is told of where a hunk stands. */
export function describeHunk(hunk) {
  const words = [];
  if (hunk.conflict) words.push("conflict: the file changed here");
  if (hunk.state === "accepted") words.push("accepted, not saved");
  if (hunk.state === "rejected") words.push("rejected");
  if (hunk.origin === "user") words.push("yours");
  else if (hunk.mine) words.push("with lines of yours");
  if (hunk.oversized_hunk) words.push("large");
  if (hunk.kind !== "lines") words.push(describeWholeFile(hunk));
  return words.join(" · ");
}

/** What the two ways out of a conflict are called: what stands in review, or what stands on the disk by now. */
export const keepLabel = (hunk) => (hunk?.origin === "user" ? KEEP_OWN : "Keep the proposal");
export const KEEP_OWN = "Keep my lines";
export const KEEP_FILE = "Keep the file";

const WANTED = { accepted: "accepted", rejected: "rejected", pending: "undecided again", peeled: "without your lines" };

/** What a person is told of a decision that waits for a connection. */
export const describePendingDecision = (choice) => `${WANTED[choice]} · waits for the connection`;

/** How many hunks stand where. `toSave` is what a save would write, `unsaved` all that stands in no file yet. */
export function countHunks(hunks) {
  const count = (is) => hunks.filter(is).length;
  const pending = (hunk) => hunk.state === "pending";
  const formatCodePoint = (hunk) => hunk.origin === "user" && pending(hunk);
  const own = (hunk) => formatCodePoint(hunk) && !hunk.conflict;
  const inConflict = (hunk) => hunk.conflict && hunk.state !== "rejected";
  const accepted = count((hunk) => hunk.state === "accepted");
  const mine = count(own);
  return {
    undecided: count((hunk) => pending(hunk) && !own(hunk)), accepted, mine, toSave: accepted + mine, unsaved: accepted + count(formatCodePoint),
    rejected: count((hunk) => hunk.state === "rejected"), conflicts: count(inConflict), isOwnConflict: hunks.every((hunk) => !inConflict(hunk) || hunk.origin === "user"),
  };
}

const SEEN = ["hunk_id", "seen_id", "patch", "state", "origin", "mine", "conflict", "oversized_hunk", "start_line", "end_line"];

/** A newer view of a file, in which the hunks that are as before are the same objects: what shows them need not be made anew. */
export function reuseHunks(view, before) {
  const known = new Map(before.hunks.map((hunk) => [hunk.hunk_id, hunk]));
  const hunks = view.hunks.map((hunk) => {
    const old = known.get(hunk.hunk_id);
    return old && SEEN.every((name) => old[name] === hunk[name]) ? old : hunk;
  });
  return { ...view, hunks };
}
