// A file under review in a tab.

import { fill, h } from "../dom.js";

export class FileEditor {
  constructor({ path, review }) {
    Object.assign(this, { path, review });
    this.el = h("div", { class: "panel file" });
  }

  load() {
    this.release = this.review.hold(this.path);
    this.end = this.review.subscribe(({ files }) => this.#show(files[this.path]));
  }

  #show(view) {
    if (view) fill(this.el, h("pre", {}, view.content ?? ""));
  }

  shown() {}
  hidden() {}
  focus() {}

  destroy() {
    this.release?.();
    this.end?.();
  }
}
