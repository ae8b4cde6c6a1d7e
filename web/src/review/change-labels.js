// Labels for changes to a whole file: created, deleted, moved, binary, mode changed.

import { reveal, revealPath } from "../format.js";

/** `file` is a PendingFile; "" for an ordinary change of a text. */
export function describeChange({ kind, change, about, is_binary: isBinary, base_mode: before, mode, moved_from: from, moved_to: to }) {
  if (about && (kind !== "file" || change === "kind")) return reveal(about);
  const file = isBinary ? "binary file" : "file";
  const what = from ? `moved from ${revealPath(from)}` : to ? `moved to ${revealPath(to)}`
    : { created: `new ${file}`, deleted: `deleted ${file}`, modified: isBinary ? "binary" : "" }[change] ?? "";
  const modes = before && mode && before !== mode ? `permissions ${before} → ${mode}` : "";
  return [what, modes].filter(Boolean).join(" · ");
}

/** Describe a hunk without lines. */
export function describeWholeFile({ kind, start_line: start, end_line: end }, file = {}) {
  if (kind === "mode") return file.base_mode && file.mode ? `File mode changes: ${file.base_mode} → ${file.mode}.` : "File mode changes.";
  if (kind === "bytes" && file.change === "created") return "New binary file.";
  if (kind === "bytes") return end < start ? "Deletes the file." : "The whole content changes.";
  if (kind === "file") return { created: "New empty file.", deleted: "Deletes the empty file." }[file.change] ?? "Adds or deletes an empty file.";
  return "";
}

/**
 * The moves that are decided as one: new path → the PendingFile that is deleted. Both files are in the same state: all of each
 * is undecided, or all is accepted.
 */
export function movesOf(files) {
  const known = new Map(files.map((file) => [file.file_path, file]));
  const isWhole = (file, count) => file[count] === file.hunk_ids.length && file.conflicts === 0;
  const pairs = files.filter((file) => known.has(file.moved_from)).map((file) => [file.file_path, known.get(file.moved_from), file]);
  return new Map(pairs
    .filter(([, old, now]) => ["pending", "accepted"].some((count) => isWhole(old, count) && isWhole(now, count)))
    .map(([path, old]) => [path, old]));
}
