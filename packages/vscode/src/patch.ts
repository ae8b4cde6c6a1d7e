// Applies unified diffs, so that VS Code can show a file before and after a change.

import type { FileToDecide } from "newel-client";

interface Edit {
  at: number;
  remove: string[];
  insert: string[];
}

const HEADER = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

/** The lines of a text, each with its line end. */
const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];

/** The edits of a patch to the lines of the old side; of the new side if reversed. Undefined if it is no patch of lines. */
function editsOf(patch: string, reverse: boolean): Edit[] | undefined {
  const edits: Edit[] = [];
  let position = -1;
  let edit: Edit | undefined;
  let last: string[] | undefined;
  for (const line of patch.split("\n").slice(0, patch.endsWith("\n") ? -1 : undefined)) {
    const header = HEADER.exec(line);
    if (header) {
      const [start, count] = reverse ? [header[3], header[4]] : [header[1], header[2]];
      position = Number(start) - (count === "0" ? 0 : 1);
      edit = undefined;
      continue;
    }
    if (position < 0) continue; // names and modes
    const kind = line[0];
    if (kind === " ") {
      // a context line is an edit that changes nothing: it is compared, too
      edits.push({ at: position, remove: [`${line.slice(1)}\n`], insert: [`${line.slice(1)}\n`] });
      last = undefined;
      edit = undefined;
      position += 1;
    } else if (kind === "\\") {
      const lists = last ? [last] : edits.at(-1) ? [edits.at(-1)!.remove, edits.at(-1)!.insert] : [];
      for (const list of lists) list.push(list.pop()?.replace(/\n$/, "") ?? "");
    } else if (kind === "+" || kind === "-") {
      if (!edit) edits.push((edit = { at: position, remove: [], insert: [] }));
      const isRemoved = (kind === "-") !== reverse;
      last = isRemoved ? edit.remove : edit.insert;
      last.push(`${line.slice(1)}\n`);
      if (isRemoved) position += 1;
    } else return undefined;
  }
  return position < 0 ? undefined : edits;
}

/**
 * The text after all patches, each of which is made for the text as it is: their line numbers are of the same side, and a line
 * that one changes may be the context of another. Undefined if one does not fit.
 */
export function applyPatches(text: string, patches: readonly string[], reverse = false): string | undefined {
  const lines = linesOf(text);
  const changes: Edit[] = [];
  for (const patch of patches) {
    const edits = editsOf(patch, reverse);
    if (!edits) return undefined;
    for (const edit of edits) {
      if (edit.at > lines.length || edit.remove.some((line, index) => lines[edit.at + index] !== line)) return undefined;
      if (edit.remove.join("") !== edit.insert.join("")) changes.push(edit);
    }
  }
  changes.sort((one, other) => one.at - other.at);
  const result: string[] = [];
  let next = 0;
  for (const { at, remove, insert } of changes) {
    if (at < next) return undefined; // two change the same line
    result.push(...lines.slice(next, at), ...insert);
    next = at + remove.length;
  }
  result.push(...lines.slice(next));
  return result.join("");
}

/** The first changed line of the old side, counted from 1. */
export function firstLine(patch: string): number {
  const header = /^@@ -(\d+)/m.exec(patch);
  const edit = editsOf(patch, false)?.find(({ remove, insert }) => remove.join("") !== insert.join(""));
  return edit ? edit.at + 1 : Number(header?.[1] ?? 1);
}

/** The changed lines of a patch, in one: `-l2 +L2`. */
export function changedLines(patch: string): string {
  const body = patch.slice(Math.max(0, patch.search(/^@@/m)));
  return body.split("\n").slice(1).filter((line) => /^[+-]/.test(line)).join(" ") || patch.split("\n").slice(1).join(" ");
}

/** The files with hunks to decide, and these hunks. Newel also lists files of which all is decided, until they change again. */
export function undecided(files: readonly FileToDecide[]): FileToDecide[] {
  return files
    .map((file) => ({ ...file, hunks: file.hunks.filter(({ state }) => state === "pending") }))
    .filter(({ hunks }) => hunks.length > 0);
}
