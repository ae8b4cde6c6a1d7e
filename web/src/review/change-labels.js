// What becomes of a file as a whole, in words: that it is new or goes, moves, is no text, may be run by now.

import { reveal, revealPath } from "../format.js";

/** `file` as in the list of what waits; "" for a text that changes and stays what it is. */
export function describeChange({ kind, change, about, is_binary: isBinary, base_mode: before, mode, moved_from: from, moved_to: to }) {
  if (about && (kind !== "file" || change === "kind")) return reveal(about);
  const file = isBinary ? "binary file" : "file";
  const what = from ? `moved from ${revealPath(from)}` : to ? `moved to ${revealPath(to)}`
    : { created: `new ${file}`, deleted: `deleted ${file}`, modified: isBinary ? "binary" : "" }[change] ?? "";
  const modes = before && mode && before !== mode ? `permissions ${before} → ${mode}` : "";
  return [what, modes].filter(Boolean).join(" · ");
}

/** What a hunk without lines does to its file. */
export function describeWholeFile({ kind, start_line: start, end_line: end }, file = {}) {
  if (kind === "mode") return file.base_mode && file.mode ? `Its permissions change: ${file.base_mode} → ${file.mode}.` : "Its permissions change.";
  if (kind === "bytes" && file.change === "created") return "A new binary file.";
  if (kind === "bytes") return end < start ? "The file goes." : "Its content changes as a whole.";
  if (kind === "file") return { created: "A new, empty file.", deleted: "The empty file goes." }[file.change] ?? "An empty file comes or goes.";
  return "";
}

/**
 * The files of which one stands for two, as a move that is decided as one: path of the new file → the file that goes. Both wait
 * for the same: all of each is undecided, or all is accepted.
 */
export function movesOf(files) {
  const known = new Map(files.map((file) => [file.file_path, file]));
  const isWhole = (file, count) => file[count] === file.hunk_ids.length && file.conflicts === 0;
  const pairs = files.filter((file) => known.has(file.moved_from)).map((file) => [file.file_path, known.get(file.moved_from), file]);
  return new Map(pairs
    .filter(([, old, now]) => ["pending", "accepted"].some((count) => isWhole(old, count) && isWhole(now, count)))
    .map(([path, old]) => [path, old]));
}
