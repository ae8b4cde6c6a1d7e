// A text in Markdown that may still grow. Its finished blocks are frozen; only the last one is made again.

import { h } from "./dom.js";
import { blocks, elements } from "./markdown.js";

// Characters that only add to a line of text, wherever they stand in it.
const TAME = /^[\p{L}\p{N} ,.;:!?'"()]*$/u;
const LINE_DECIDED = 6; // characters after which a line's kind (list, heading, rule) no longer changes by tame ones
const SHARE = 10; // making the last block again may take a tenth of the time
const CONTAINERS = new Set(["P", "LI", "UL", "OL", "BLOCKQUOTE", "H3"]);

export class Prose {
  constructor() {
    this.el = h("div", { class: "prose" });
    this.#reset();
  }

  #reset() {
    this.el.replaceChildren();
    this.text = "";
    this.env = {};
    this.tailStart = 0; // offset of the last block
    this.frozen = 0; // elements before it
    this.node = null; // the text node that tame characters are added to
    this.fence = false;
    this.notBefore = 0;
  }

  /** Show the text so far. False if that was put off for a moment: then call again with the next frame. */
  grow(text) {
    if (text === this.text) return true;
    if (!text.startsWith(this.text)) this.#reset();
    const piece = text.slice(this.text.length);
    if (this.node && this.#isTame(piece)) {
      this.node.appendData(piece);
      this.text = text;
      return true;
    }
    const begin = performance.now();
    if (begin < this.notBefore) return false;
    this.text = text;
    this.#render();
    void this.el.offsetHeight; // laid out now: that is a part of what the last block costs
    const end = performance.now();
    this.notBefore = end + SHARE * (end - begin);
    return true;
  }

  /** The text is whole. */
  finish(text) {
    if (this.frozen === 0 || !text.startsWith(this.text)) {
      this.#reset();
      this.el.replaceChildren(elements(text));
    } else {
      this.text = text;
      this.#render();
      this.#dropTail();
      this.el.append(elements(text.slice(this.tailStart), { env: this.env }));
    }
    this.text = text;
  }

  #isTame(piece) {
    if (this.fence) return !/[`~]/.test(piece);
    const line = this.text.length - this.text.lastIndexOf("\n") - 1;
    return line >= LINE_DECIDED && TAME.test(piece);
  }

  #render() {
    const tail = this.text.slice(this.tailStart);
    const parts = blocks(tail, this.env);
    this.#dropTail();
    const last = parts.pop();
    for (const part of parts) this.el.append(elements(tail.slice(part.start, part.end), { env: this.env }));
    this.frozen = this.el.childNodes.length;
    this.node = null;
    this.fence = last?.fence ?? false;
    if (!last) return;
    const source = tail.slice(last.start);
    this.tailStart += last.start;
    this.el.append(elements(source, { env: this.env, done: false }));
    if (this.fence) this.#openCode(source);
    else this.#openText(source);
  }

  #dropTail() {
    while (this.el.childNodes.length > this.frozen) this.el.lastChild.remove();
  }

  /** The text node of an open code block; a block that stands in no list and no quote is its source's lines. */
  #openCode(source) {
    const code = this.el.lastElementChild?.querySelector("code");
    const start = source.indexOf("\n") + 1;
    if (!code || !start || !/^[`~]/.test(source)) return;
    code.textContent = source.slice(start);
    this.node = code.firstChild ?? code.appendChild(document.createTextNode(""));
  }

  /** The text node at the end of the last paragraph, with the blanks that rendering leaves out. */
  #openText(source) {
    let element = this.el.lastElementChild;
    while (element && CONTAINERS.has(element.lastElementChild?.tagName) && !text(element)) {
      element = element.lastElementChild;
    }
    if (!element || !CONTAINERS.has(element.tagName) || /\n[ \t]*\n[ \t]*$/.test(source)) return;
    const node = element.lastChild?.nodeType === Node.TEXT_NODE ? element.lastChild : element.appendChild(new Text(""));
    node.appendData(/[ \t\n]*$/.exec(source)[0]);
    this.node = node;
  }
}

/** Whether an element ends with text of its own. */
const text = (element) => element.lastChild?.nodeType === Node.TEXT_NODE && element.lastChild.data.trim() !== "";
