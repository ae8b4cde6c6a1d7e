// All pending changes, as rows: a head for each file, followed by its hunks. Pure functions.

import { describeChange, movesOf } from "./change-labels.js";
import { isOpen } from "./pending-decisions.js";
import { answerOf, revisionOf } from "./revisions.js";

const HEAD = 44; // px, until they are measured
const HUNK = 60;
const LINE = 20;
const SHOWN_LINES = 30; // of a hunk at first
const UNKNOWN = "unknown/"; // the prefix of the keys of files whose hunks are not loaded

const NO_REVISIONS = { revising: [], answers: [] };

const isShown = ({ state }) => state === "pending" || state === "accepted";

const linesOf = (patch) => {
  let count = 0;
  for (let at = patch.indexOf("\n"); at >= 0 && count < SHOWN_LINES; at = patch.indexOf("\n", at + 1)) count += 1;
  return count;
};

/**
 * The rows of `pending`, with the hunks of `views` (path → {rev, hunks}) that are loaded: [{key, stamp, height,
 * kind: "file" | "hunk" | "unknown", file, hunk}]. `notes` are messages about hunks and files, by key; `waiting` the pending
 * decisions, by path; `state` has the revisions under way, see revisions.js.
 */
export function pendingRows({ pending, views, notes, folded, waiting = {}, state = NO_REVISIONS }) {
  const moves = movesOf(pending ?? []);
  const gone = new Set([...moves.values()].map((file) => file.file_path));
  return (pending ?? []).flatMap((file) => {
    const path = file.file_path;
    if (gone.has(path)) return [];
    if (moves.has(path)) return [moveRow(file, moves.get(path), notes)];
    const key = `file/${path}`;
    const isFolded = folded.has(path);
    const head = {
      key, kind: "file", file, height: HEAD, isFolded, note: notes.get(key) ?? "",
      stamp: JSON.stringify([describeChange(file), file.pending, file.accepted, file.conflicts, file.run_ids, isFolded, notes.get(key)]),
    };
    if (isFolded) return [head];
    const view = views.get(path);
    if (!view) return [head, { key: UNKNOWN + path, kind: "unknown", file, stamp: "", height: file.hunk_ids.length * (HUNK + 4 * LINE) }];
    return [head, ...view.hunks.filter(isShown).map((hunk, place, all) => hunkRow(file, hunk, { place, count: all.length, notes, waiting: waiting[path], state }))];
  });
}

/** A move is one row and one decision; the keys treat it as a hunk. */
function moveRow(file, from, notes) {
  const key = `hunk/${file.file_path}/move`;
  const note = notes.get(key) ?? null;
  return { key, kind: "hunk", file, from, note, height: HUNK, stamp: JSON.stringify([file, from, note]) };
}

function hunkRow(file, hunk, { place, count, notes, waiting, state: review }) {
  const key = `hunk/${file.file_path}/${hunk.hunk_id}`;
  const note = notes.get(key) ?? null;
  const decision = waiting?.get(hunk.hunk_id);
  const waits = isOpen(decision) ? decision.choice : null;
  const { state, conflict, mine, patch, seen_id: seen, start_line: start, end_line: end } = hunk;
  const revision = revisionOf(review, file.file_path, hunk);
  const answer = answerOf(review, file.file_path, hunk);
  return {
    key, kind: "hunk", file, hunk, place: place + 1, count, note, waits, revision, answer, height: HUNK + LINE * linesOf(patch),
    stamp: JSON.stringify([seen, state, conflict, mine, start, end, place, count, note, waits, revision, answer, patch.length, patch.slice(-200)]),
  };
}

/** The key of the first hunk; null until it is loaded, even if hunks further down are. */
export function firstHunk(rows) {
  const first = rows.find((row) => row.kind !== "file");
  return first?.kind === "hunk" ? first.key : null;
}

/**
 * The key of the hunk `by` rows after `at` (−1: before); the first or last if `at` is not a hunk. A file whose hunks are not
 * loaded yet counts as one row, so that no hunk is passed over.
 */
export function nextHunk(rows, at, by) {
  const stops = rows.filter((row) => row.kind !== "file");
  const place = stops.findIndex((row) => row.key === at);
  if (place < 0) return (by > 0 ? stops[0] : stops.at(-1))?.key ?? null;
  return stops[Math.max(0, Math.min(stops.length - 1, place + by))].key;
}

/** The current key of a row: that of a file whose hunks were not loaded becomes that of its first hunk. */
export function currentKey(rows, key) {
  if (!key?.startsWith(UNKNOWN) || rows.some((row) => row.key === key)) return key;
  const path = key.slice(UNKNOWN.length);
  return rows.find((row) => row.kind === "hunk" && row.file.file_path === path)?.key ?? key;
}

/** "12 hunks in 3 files, 1 of them a conflict; 4 accepted, unsaved" as parts. */
export function totals(pending) {
  const sum = (name) => (pending ?? []).reduce((all, file) => all + file[name], 0);
  return { files: pending?.length ?? 0, pending: sum("pending"), accepted: sum("accepted"), conflicts: sum("conflicts") };
}
