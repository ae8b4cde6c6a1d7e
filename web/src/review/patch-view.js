// A rendered patch: file heads, hunks, lines with numbers and signs. Its content is always text.

import { h } from "../dom.js";
import { formatNumber, reveal, revealPath } from "../format.js";
import { changedInDiff, cutAt } from "../word-diff.js";
import { pagedList } from "./paged-list.js";
import { parsePatch } from "./patch.js";

const FIRST_LINES = 200; // lines of a file that are shown at first
const PAGE_SIZE = 2_000; // lines that each press of the button adds
const MAX_LINE_LENGTH = 2_000; // characters of a line

const MARK = { add: "ins", del: "del" };
const SIGN = { add: "+", del: "−", same: " ", note: "" };
const NOTE_LABELS = [
  [/^new file mode \d+$/, "New file."],
  [/^deleted file mode \d+$/, "Deletes the file."],
  [/^old mode 100(\d{3})$/, "File mode: $1"],
  [/^new mode 100(\d{3})$/, "New file mode: $1"],
];

/** A line's text for display: hidden characters written out, long lines truncated. */
export function printable(text) {
  const cut = text.length > MAX_LINE_LENGTH;
  const words = reveal(cut ? text.slice(0, MAX_LINE_LENGTH) : text.replace(/\r$/, ""));
  return cut ? `${words}… (${formatNumber(text.length - MAX_LINE_LENGTH)} more characters)` : words;
}

/** A text with its changed words marked. */
export const withMarks = (text, ranges) =>
  ranges ? cutAt(text, ranges).map((piece) => (piece.isChanged ? h("span", { class: "changed-word" }, piece.text) : piece.text)) : text;

function lineView({ kind, text, old, new: fresh, changed }) {
  return h(MARK[kind] ?? "span", { class: `patch-line ${kind}` },
    h("span", { class: "number", "data-number": old ?? "" }), h("span", { class: "number", "data-number": fresh ?? "" }),
    h("span", { class: "sign" }, SIGN[kind]), h("span", { class: "text" }, kind === "note" ? `(${text.trim()})` : withMarks(text, changed), "\n"));
}

/** The lines as they are shown, with the ranges of their changed words. */
function withChanges(lines) {
  const shown = lines.map((line) => (line.kind === "note" ? line : { ...line, text: printable(line.text) }));
  const changed = changedInDiff(shown);
  return shown.map((line, at) => ({ ...line, changed: changed.get(at) }));
}

/** The lines of hunks, the first ones at once, the others on request. `heads`: whether the hunks have a head line. */
export function hunksView(hunks, { label = "Changes", heads = true, first = FIRST_LINES } = {}) {
  const lines = hunks.flatMap((hunk) => [...(heads ? [{ kind: "head", text: hunk.head }] : []), ...withChanges(hunk.lines)]);
  const code = h("div", { class: "patch-lines", role: "group", "aria-label": label, tabindex: "0" });
  const render = (line) => (line.kind === "head" ? h("span", { class: "patch-line hunk-head" }, reveal(line.text)) : lineView(line));
  return pagedList(code, lines, { first, step: PAGE_SIZE, noun: "line", render });
}

/** A complete patch. `heads`: whether each file begins with its name. */
export function patchView(patch, { heads = true, first = FIRST_LINES } = {}) {
  const files = parsePatch(patch);
  return h("div", { class: "patch" },
    files.length === 0 && h("p", { class: "dim note" }, "No differences."),
    ...files.map((file) => h("div", { class: "patch-file" },
      heads && file.path && h("p", { class: "patch-path mono" }, revealPath(file.path)),
      ...file.notes.map((note) => h("p", { class: "dim note" }, describeNote(note))),
      file.isBinary && h("p", { class: "dim note" }, "Binary files differ."),
      file.hunks.length > 0 && hunksView(file.hunks, { label: `Changes of ${revealPath(file.path)}`, first }))));
}

const describeNote = (note) => NOTE_LABELS.reduce((words, [pattern, plain]) => words.replace(pattern, plain), note);
