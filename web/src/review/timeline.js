import { h } from "../dom.js";

export class Timeline {
  constructor() {
    this.el = h("div", { class: "panel" });
  }

  update() {}
  shown() {}
  hidden() {}
  focus() {}
}
