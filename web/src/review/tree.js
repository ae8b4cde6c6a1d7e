import { h } from "../dom.js";

export class Tree {
  constructor() {
    this.el = h("div", { class: "panel" });
  }

  update() {}
  shown() {}
  hidden() {}
  focus() {}
}
