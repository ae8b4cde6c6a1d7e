// Markdown that may still grow. Finished blocks are frozen; only the last one is rendered again.

import { h } from "./dom.js";
import { escapeBidi } from "./format.js";
import { renderMarkdown, renderGrowing } from "./markdown.js";

// Characters without a meaning in Markdown, wherever they are in a line.
const PLAIN_CHARACTERS = /^[\p{L}\p{N} ,.;:!?'"()]*$/u;
const MIN_LINE_LENGTH = 6; // characters after which tame ones no longer change a line's kind (list, heading, rule)
const CONTAINERS = new Set(["P", "LI", "UL", "OL", "BLOCKQUOTE", "H3"]);

export class StreamingMarkdown {
  constructor() {
    this.el = h("div", { class: "prose" });
    this.#reset();
  }

  #reset() {
    this.el.replaceChildren();
    this.text = "";
    this.env = {};
    this.start = 0; // offset of the part that is rendered again: the last block, or the last item of its list
    this.open = []; // its elements
    this.list = null; // the list they belong to
    this.block = { start: 0, before: 0 }; // the last block's offset, and the number of elements before it
    this.node = null; // the text node to which tame characters are appended
    this.fence = false;
    this.whole = false;
  }

  /** Show the text so far; once it no longer `grows`, the complete text. */
  show(text, grows) {
    if (grows) this.#grow(text);
    else if (!this.whole) this.#finish(text);
    this.whole = !grows;
  }

  #grow(text) {
    if (this.whole || !text.startsWith(this.text)) this.#reset();
    const piece = text.slice(this.text.length);
    this.text = text;
    if (this.node && this.#isTame(piece)) this.node.appendData(escapeBidi(piece));
    else if (piece) this.#render();
  }

  #finish(text) {
    const isNamed = this.env.references !== undefined; // a link's address may follow the link
    if (isNamed || !text.startsWith(this.text)) this.#reset();
    this.#dropBlock();
    this.el.append(renderMarkdown(text.slice(this.block.start), this.env));
    this.text = text;
  }

  #dropBlock() {
    while (this.el.children.length > this.block.before) this.el.lastChild.remove();
    this.start = this.block.start;
    this.list = null;
  }

  #isTame(piece) {
    if (this.fence) return !/[`~]/.test(piece);
    const before = this.text.length - piece.length;
    const line = before - this.text.lastIndexOf("\n", before - 1) - 1;
    return line >= MIN_LINE_LENGTH && PLAIN_CHARACTERS.test(piece);
  }

  #render() {
    const tail = this.text.slice(this.start);
    const { finished, last, start, block, fence } = renderGrowing(tail, this.env);
    if (this.list && block > 0) {
      this.#dropBlock(); // the list is complete: only now is its spacing known
      this.#render();
      return;
    }
    for (const element of this.open) element.remove();
    if (finished) this.#add(finished);
    if (!this.list) {
      this.list = start > block ? this.el.lastElementChild : null;
      this.block = { start: this.start + block, before: this.el.children.length - (this.list ? 1 : 0) };
    }
    this.open = this.#add(last);
    this.start += start;
    this.node = null;
    this.fence = fence;
    const source = tail.slice(start);
    if (fence) this.#openCode(source);
    else this.#openText(source);
  }

  /** Append elements, and items to the open list. Returns the added elements. */
  #add(fragment) {
    const first = fragment.firstElementChild;
    const items = this.list && first?.tagName === this.list.tagName ? [...first.children] : [];
    if (items.length > 0) first.remove();
    this.list?.append(...items);
    const others = [...fragment.childNodes];
    this.el.append(fragment);
    return [...items, ...others];
  }

  /** Find the text node of an open code block; outside lists and quotes its text is the source. */
  #openCode(source) {
    const code = this.el.lastElementChild?.querySelector("code");
    const start = source.indexOf("\n") + 1;
    if (!code || !start || !/^[`~]/.test(source)) return;
    code.textContent = escapeBidi(source.slice(start));
    this.node = code.firstChild ?? code.appendChild(document.createTextNode(""));
  }

  /** Find the text node at the end of the last paragraph, and add the trailing spaces that rendering drops. */
  #openText(source) {
    let element = this.el.lastElementChild;
    while (element && CONTAINERS.has(element.lastElementChild?.tagName) && !text(element)) {
      element = element.lastElementChild;
    }
    if (!element || !CONTAINERS.has(element.tagName) || /\n[ \t]*\n[ \t]*$/.test(source)) return;
    const node = element.lastChild?.nodeType === Node.TEXT_NODE ? element.lastChild : element.appendChild(new Text(""));
    node.appendData(/(?<![ \t\n])[ \t\n]*$/.exec(source)[0]);
    this.node = node;
  }
}

/** Whether an element ends with its own text. */
const text = (element) => element.lastChild?.nodeType === Node.TEXT_NODE && element.lastChild.data.trim() !== "";
