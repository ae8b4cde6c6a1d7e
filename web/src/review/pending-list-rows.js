// All pending changes, as rows: a head for each file, followed by its hunks. Pure functions.

import { describeChange, movesOf } from "./change-labels.js";
import { isUndecided } from "./hunk-format.js";
import { isOpen } from "./pending-decisions.js";
import { isFileReviewed, nextOf } from "./review-progress.js";
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
 * kind: "file" | "hunk" | "unknown", file, hunk}]. `folds` are the user's, by path: {isFolded, isDone}; `notes` are messages about hunks and files, by key; `waiting` the pending
 * decisions, by path; `state` has the revisions under way, see revisions.js.
 */
export function pendingRows({ pending, views, notes, folds, waiting = {}, state = NO_REVISIONS }) {
  const moves = movesOf(pending ?? []);
  const gone = new Set([...moves.values()].map((file) => file.file_path));
  return (pending ?? []).flatMap((file) => {
    const path = file.file_path;
    if (gone.has(path)) return [];
    if (moves.has(path)) return [moveRow(file, moves.get(path), notes)];
    const key = `file/${path}`;
    const isFolded = foldOf(file, folds);
    const head = {
      key, kind: "file", file, height: HEAD, isFolded, note: notes.get(key) ?? "",
      stamp: JSON.stringify([describeChange(file), file.pending, file.accepted, file.pending_conflicts, file.unsaved, file.rejected, file.run_ids, isFolded, notes.get(key)]),
    };
    if (isFolded) return [head];
    const view = views.get(path);
    if (!view) return [head, { key: UNKNOWN + path, kind: "unknown", file, stamp: "", height: file.hunk_ids.length * (HUNK + 4 * LINE) }];
    return [head, ...view.hunks.filter(isShown).map((hunk, place, all) => hunkRow(file, hunk, { place, count: all.length, notes, waiting: waiting[path], state }))];
  });
}

/** Whether a file is folded: once it is reviewed, unless the user has unfolded it since. */
function foldOf(file, folds) {
  const fold = folds.get(file.file_path);
  const isDone = isFileReviewed(file);
  return fold?.isDone === isDone ? fold.isFolded : isDone;
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

const isHunkUndecided = ({ kind, file, hunk, waits }) => kind !== "file" && (hunk ? isUndecided(hunk) && !waits : file.pending > 0);

/** The rows at which the keys stop: undecided hunks, or all if there are none. A file that is not loaded yet is one, too. */
function stopsOf(rows) {
  const undecided = rows.filter(isHunkUndecided);
  return undecided.length > 0 ? undecided : rows.filter((row) => row.kind !== "file");
}

/** The key of the first undecided hunk, or of any; null until it is loaded, even if hunks further down are. */
export function firstHunk(rows) {
  const [first] = stopsOf(rows);
  return first?.kind === "hunk" ? first.key : null;
}

/** The key of the next undecided hunk after the row `at` (`by` −1: before it), around the end; of any hunk if all are decided. */
export function nextHunk(rows, at, by) {
  const stops = new Set(stopsOf(rows));
  return nextOf(rows, rows.findIndex((row) => row.key === at), by, (row) => stops.has(row))?.key ?? null;
}

/** The current key of a row: that of a file whose hunks were not loaded becomes that of its first hunk. */
export function currentKey(rows, key) {
  if (!key?.startsWith(UNKNOWN) || rows.some((row) => row.key === key)) return key;
  const path = key.slice(UNKNOWN.length);
  return rows.find((row) => row.kind === "hunk" && row.file.file_path === path)?.key ?? key;
}
