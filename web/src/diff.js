// A unified diff, line by line. Added and removed lines keep their sign, as colour alone does not reach everyone.

import { h } from "./dom.js";
import { diffLines, plain, reveal } from "./format.js";

const MARK = { add: "ins", del: "del" };
const SIGN = /^[-+ ]/; // is not copied with its line

/** A diff to read, without the file header. */
export const diffView = (diff) => view(diffLines(diff).filter((line) => line.kind !== "file"), plain);

/** A diff to decide on: complete, with hidden characters written out. */
export const wholeDiffView = (diff) => view(diffLines(diff), reveal);

const view = (lines, show) =>
  h("pre", { class: "diff", tabindex: "0", "aria-label": "Changes" },
    ...lines.map(({ kind, text }) => {
      const sign = kind !== "file" && SIGN.test(text) ? text[0] : "";
      return h(MARK[kind] ?? "span", { class: `line ${kind}` }, sign && h("span", { class: "sign" }, sign), `${show(text.slice(sign.length))}\n`);
    }));
