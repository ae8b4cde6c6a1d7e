// A view whose code is large and loaded when it is first wanted: until then an empty place stands there.

import { fill, h } from "../dom.js";

export class LazyView {
  /** `load()` resolves to the view: {el, load(), shown(), hidden(), focus(), destroy(), reveal()}. */
  constructor(load) {
    this.el = h("div", { class: "panel" }, h("p", { class: "empty dim" }, "Loading…"));
    this.isShown = false;
    this.wanted = []; // calls that wait for the view
    this.begin = load;
  }

  /** There is one view, however often it is asked for. */
  async load() {
    try {
      await (this.making ??= this.#make());
    } catch {
      this.making = null;
      const again = h("button", { type: "button", onclick: () => this.load() }, "Try again");
      fill(this.el, h("p", { class: "empty" }, "This part of the page could not be loaded. Is Newel still running? "), again);
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

  /** Undefined or null while it is not known. */
  get isDirty() {
    return this.view?.isDirty;
  }

  get selection() {
    return this.view?.selection ?? null;
  }
}
