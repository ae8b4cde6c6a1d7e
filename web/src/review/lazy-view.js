// A view whose code is loaded on first use; until then it shows a placeholder.

import { fill, h } from "../dom.js";

export class LazyView {
  /** `load()` resolves to the view: {el, load(), shown(), hidden(), focus(), destroy(), reveal()}. */
  constructor(load) {
    this.el = h("div", { class: "panel" }, h("p", { class: "file-empty dim" }, "Loading…"));
    this.isShown = false;
    this.wanted = []; // calls to repeat once the view is loaded
    this.begin = load;
  }

  /** Load the view, once. */
  async load() {
    try {
      await (this.making ??= this.#make());
    } catch {
      this.making = null;
      const again = h("button", { type: "button", onclick: () => this.load() }, "Try again");
      fill(this.el, h("p", { class: "empty" }, "Could not load this view. Is Newel still running? "), again);
      return;
    }
    await this.view?.load?.();
  }

  async #make() {
    const view = await this.begin();
    if (this.isOver) return;
    this.view = view;
    fill(this.el, view.el);
    if (this.isShown) view.shown();
    for (const call of this.wanted.splice(0)) call(view);
  }

  #when(call) {
    if (this.view) call(this.view);
    else this.wanted.push(call);
  }

  shown() {
    this.isShown = true;
    this.view?.shown();
  }

  hidden() {
    this.isShown = false;
    this.view?.hidden();
  }

  focus = () => this.#when((view) => this.isShown && view.focus());
  again = () => this.view?.again?.();
  reveal = (place) => this.#when((view) => view.reveal?.(place));
  onState = (reader) => this.#when((view) => view.onState?.(reader));

  destroy() {
    this.isOver = true;
    this.view?.destroy?.();
  }

  /** Undefined or null until it is loaded. */
  get isDirty() {
    return this.view?.isDirty;
  }

  get selection() {
    return this.view?.selection ?? null;
  }
}
