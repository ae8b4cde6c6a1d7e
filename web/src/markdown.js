// Markdown to inert elements: HTML stays text, links are limited to http, https and mailto, images become links, and
// bidirectional control characters are written out.

import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";
import { h, copyButton } from "./dom.js";
import { escapeBidi } from "./format.js";
import { highlight } from "./highlight.js";

const TAGS = [
  "p", "br", "hr", "h3", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s", "a", "span",
  "table", "thead", "tbody", "tr", "th", "td",
];
const SANITIZE_OPTIONS = { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["href", "title", "start", "class"], RETURN_DOM_FRAGMENT: true };
const SAFE_LINK = /^(?:https?|mailto):/i;

const md = new MarkdownIt({ html: false, linkify: true, breaks: false });
md.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
md.validateLink = () => true; // rejected links lose their address below, but keep their text
md.renderer.rules.image = (tokens, index) => {
  const { content, attrs } = tokens[index];
  const src = attrs.find(([name]) => name === "src")[1];
  const escape = md.utils.escapeHtml;
  return `<a href="${escape(src)}">Image: ${escape(content || src)}</a>`;
};
// One level for all headings: a message must not disturb the outline of the page.
md.renderer.rules.heading_open = (tokens, index) => `<h3 class="level-${tokens[index].tag.slice(1)}">`;
md.renderer.rules.heading_close = () => "</h3>";
for (const cell of ["th_open", "td_open"]) {
  md.renderer.rules[cell] = (tokens, index) => {
    const side = /right|center/.exec(tokens[index].attrGet("style") ?? "");
    return `<${tokens[index].tag}${side ? ` class="${side[0]}"` : ""}>`;
  };
}

/** Render a complete text, with highlighted code blocks that can be copied. */
export const renderMarkdown = (text, env = {}) => renderTokens(md.parse(text, env), env, true);

/**
 * Render a growing text in two parts: `finished` (may be null), and `last`, its last block or the last item of a final list.
 * `start` is the offset of `last`, `block` that of the block it belongs to; `fence` is true for an open code block.
 */
export function renderGrowing(text, env) {
  const tokens = md.parse(text, env);
  const top = Math.max(0, tokens.findLastIndex((token) => token.level === 0 && token.map && token.nesting >= 0));
  const block = tokens[top];
  const item = tokens.findLastIndex((token, index) => index > top + 1 && token.level === 1 && token.type === "list_item_open");
  const lines = text.split("\n");
  const offset = (index) => (index > 0 ? lines.slice(0, tokens[index].map[0]).join("\n").length + 1 : 0);
  const [before, last] = item < 0
    ? [tokens.slice(0, top), tokens.slice(top)]
    : [[...tokens.slice(0, item), tokens.at(-1)], [block, ...tokens.slice(item)]];
  return {
    finished: before.length > 0 ? renderTokens(before, env, true) : null,
    last: renderTokens(last, env, false),
    start: item < 0 ? offset(top) : offset(item),
    block: offset(top),
    fence: block?.type === "fence" && isOpen(block, lines.slice(...block.map)),
  };
}

const isOpen = ({ markup }, lines) => lines.length < 2 || !lines.at(-1).trim().startsWith(markup);

function renderTokens(tokens, env, done) {
  const html = md.renderer.render(tokens, { ...md.options, highlight: done ? highlight : null }, env);
  const fragment = DOMPurify.sanitize(html, SANITIZE_OPTIONS);
  const texts = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = escapeBidi(texts.currentNode.data);
  setDirections(fragment);
  for (const link of fragment.querySelectorAll("a")) secureLink(link);
  for (const item of fragment.querySelectorAll("li")) markTask(item);
  for (const table of fragment.querySelectorAll("table")) {
    const frame = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table", dir: table.dir });
    table.replaceWith(frame);
    frame.append(table);
  }
  for (const pre of fragment.querySelectorAll("pre")) {
    pre.tabIndex = 0;
    if (done) addCopy(pre);
  }
  return fragment;
}

const RIGHT_TO_LEFT = /^[^\p{L}]*[\p{sc=Arab}\p{sc=Hebr}\p{sc=Syrc}\p{sc=Thaa}\p{sc=Nkoo}\p{sc=Adlm}]/u;

/** Let each block of text have the direction of its first letter, and a list or table that of its first item; code is left to right. */
function setDirections(fragment) {
  for (const code of fragment.querySelectorAll("pre, code")) code.dir = "ltr";
  for (const block of fragment.querySelectorAll("p, h3, li, th, td, blockquote")) block.dir = "auto";
  for (const group of fragment.querySelectorAll("ul, ol, table")) {
    const first = group.querySelector("li, th, td")?.cloneNode(true);
    for (const code of first?.querySelectorAll("code, pre, ul, ol") ?? []) code.remove();
    group.dir = RIGHT_TO_LEFT.test(first?.textContent ?? "") ? "rtl" : "ltr";
  }
  for (const quote of fragment.querySelectorAll("blockquote, li")) { // "auto" skips the blocks in it, which have their own
    if (quote.querySelector("p")) quote.dir = RIGHT_TO_LEFT.test(quote.querySelector("p").textContent) ? "rtl" : "ltr";
  }
}

/** Replace the "[x]" of a task list by a box. */
function markTask(item) {
  const text = (item.firstElementChild?.tagName === "P" ? item.firstElementChild : item).firstChild;
  const box = text?.nodeType === Node.TEXT_NODE && /^\s*\[([ x])\] /i.exec(text.data);
  if (!box) return;
  text.data = `${box[1] === " " ? "☐" : "☑"} ${text.data.slice(box[0].length)}`;
  item.className = "task";
}

function secureLink(link) {
  const address = link.getAttribute("href") ?? "";
  if (SAFE_LINK.test(address)) {
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
