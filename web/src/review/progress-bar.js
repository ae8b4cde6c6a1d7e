// A thin bar that shows how many hunks of the review are decided.

import { h, setAttr, setText } from "../dom.js";
import { describeProgress } from "./review-progress.js";

export class ProgressBar {
  constructor() {
    this.bar = h("progress", { "aria-label": "Progress of the review" });
    this.words = h("span", { class: "dim" });
    this.el = h("div", { class: "review-progress", hidden: true }, this.bar, this.words);
  }

  /** `progress` as in review-store.js. */
  update(progress) {
    const words = describeProgress(progress);
    this.el.hidden = words === "";
    setAttr(this.bar, "max", progress.total || 1);
    setAttr(this.bar, "value", progress.decided);
    setAttr(this.bar, "title", words);
    setAttr(this.bar, "aria-valuetext", words);
    setText(this.words, words);
  }
}
