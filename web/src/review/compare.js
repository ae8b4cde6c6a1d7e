import { h } from "../dom.js";

export class Compare {
  constructor() {
    this.el = h("div", { class: "panel" });
  }

  update() {}
  shown() {}
  hidden() {}
  focus() {}
}
