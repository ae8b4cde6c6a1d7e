// The agent's side of a review.

import { h } from "../dom.js";

export class Sidebar {
  constructor() {
    this.el = h("div", { class: "review-sidebar" });
  }

  update() {}
  focus() {}
}
