import { h } from "../dom.js";

export class PendingDiff {
  constructor() {
    this.el = h("div", { class: "panel" });
  }

  update() {}
  shown() {}
  hidden() {}
  focus() {}
}
