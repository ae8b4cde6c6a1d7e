// A unified diff, line by line; added and removed lines carry their sign, not only a colour.

import { h } from "./dom.js";
import { diffLines, plain, reveal } from "./format.js";

const MARK = { add: "ins", del: "del" };

/** For reading, below a line that names the file. */
export const diffView = (diff) => view(diffLines(diff).filter((line) => line.kind !== "file"), plain);

/** For deciding: no line is left out, no character hides. */
export const wholeDiffView = (diff) => view(diffLines(diff), reveal);

const view = (lines, show) =>
  h("pre", { class: "diff", tabindex: "0", "aria-label": "Changes" },
    ...lines.map(({ kind, text }) => h(MARK[kind] ?? "span", { class: `line ${kind}` }, `${show(text)}\n`)));
