// A unified diff, line by line; added and removed lines carry their sign, not only a colour.

import { h } from "./dom.js";
import { diffLines, plain } from "./format.js";

const MARK = { add: "ins", del: "del" };

/** `show` makes text inert: `plain` for reading, `reveal` where somebody decides. */
export function diffView(diff, show = plain) {
  const rows = diffLines(diff)
    .filter((line) => line.kind !== "file")
    .map(({ kind, text }) => h(MARK[kind] ?? "span", { class: `line ${kind}` }, `${show(text)}\n`));
  return h("pre", { class: "diff", tabindex: "0", "aria-label": "Changes" }, ...rows);
}
