// Markdown to inert elements. HTML in it is text; links go to http, https and mailto only; images are links.

import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";
import { h, copyButton } from "./dom.js";
import { highlighted } from "./highlight.js";

const TAGS = [
  "p", "br", "hr", "h3", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s", "a", "span",
  "table", "thead", "tbody", "tr", "th", "td",
];
const PURE = { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["href", "title", "start", "class"], RETURN_DOM_FRAGMENT: true };
const GOOD_LINK = /^(?:https?|mailto):/i;

function parser(highlight) {
  const md = new MarkdownIt({ html: false, linkify: true, breaks: false, highlight });
  md.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
  md.validateLink = () => true; // what is no good link loses its address below, not its text
  md.renderer.rules.image = (tokens, index) => {
    const { content, attrs } = tokens[index];
    const src = attrs.find(([name]) => name === "src")[1];
    const escape = md.utils.escapeHtml;
    return `<a href="${escape(src)}">Image: ${escape(content || src)}</a>`;
  };
  // One level for all headings: a message must not upset the outline of the page.
  md.renderer.rules.heading_open = (tokens, index) => `<h3 class="level-${tokens[index].tag.slice(1)}">`;
  md.renderer.rules.heading_close = () => "</h3>";
  for (const cell of ["th_open", "td_open"]) {
    md.renderer.rules[cell] = (tokens, index) => {
      const side = /right|center/.exec(tokens[index].attrGet("style") ?? "");
      return `<${tokens[index].tag}${side ? ` class="${side[0]}"` : ""}>`;
    };
  }
  return md;
}

const quick = parser(null); // for what still grows
const full = parser(highlighted);

/** The blocks of a text: [{start, end, fence}], offsets; `fence` is true for a code block that is still open. */
export function blocks(text, env = {}) {
  const tops = quick.parse(text, env).filter((token) => token.level === 0 && token.map && token.nesting >= 0);
  const lines = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines.push(at + 1);
  const offset = (line) => lines[line] ?? text.length;
  return tops.map((token, index) => ({
    start: index === 0 ? 0 : offset(token.map[0]),
    end: index + 1 < tops.length ? offset(tops[index + 1].map[0]) : text.length,
    fence: token.type === "fence" && isOpen(token, text.slice(offset(token.map[0]), offset(token.map[1]))),
  }));
}

function isOpen(token, source) {
  const lines = source.replace(/\n$/, "").split("\n");
  return lines.length < 2 || !lines.at(-1).trim().startsWith(token.markup);
}

/** The elements of a text. With `done`, code is coloured and can be copied. */
export function elements(text, { env = {}, done = true } = {}) {
  const fragment = DOMPurify.sanitize((done ? full : quick).render(text, env), PURE);
  for (const link of fragment.querySelectorAll("a")) mendLink(link);
  for (const pre of fragment.querySelectorAll("pre")) pre.tabIndex = 0;
  for (const table of fragment.querySelectorAll("table")) {
    const frame = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" });
    table.replaceWith(frame);
    frame.append(table);
  }
  if (done) for (const pre of fragment.querySelectorAll("pre")) addCopy(pre);
  return fragment;
}

function mendLink(link) {
  const address = link.getAttribute("href") ?? "";
  if (GOOD_LINK.test(address)) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  } else {
    link.removeAttribute("href");
    link.title = address;
  }
}

function addCopy(pre) {
  const frame = h("div", { class: "code" });
  pre.replaceWith(frame);
  frame.append(pre, copyButton(() => pre.textContent, "Copy code"));
}
