// Shows decisions that are pending until the connection is back, and those that failed afterwards.

import { fill, h, icon } from "../dom.js";
import { plain, pluralize, revealPath } from "../format.js";
import { isOpen } from "./pending-decisions.js";

export class PendingDecisionsCard {
  constructor({ waiting }) {
    this.words = h("span", {});
    this.back = h("button", { type: "button", onclick: () => waiting.withdrawAll() }, "Undo all");
    this.waits = h("p", { class: "row", hidden: true }, this.words, this.back);
    this.list = h("ul", { "aria-label": "Not decided" });
    this.missed = h("div", { hidden: true }, this.list, h("button", { type: "button", onclick: waiting.dismiss }, "Dismiss"));
    this.el = h("div", { class: "waiting-card", role: "status" }, this.waits, this.missed);
  }

  /** `state` as in review-store.js. */
  update({ isUp, waiting, dropped }) {
    const count = Object.values(waiting).reduce((sum, file) => sum + [...file.values()].filter(isOpen).length, 0);
    this.waits.hidden = isUp || count === 0;
    if (!this.waits.hidden) fill(this.words, `${pluralize(count, "decision")} ${count === 1 ? "waits" : "wait"} for the connection.`);
    this.missed.hidden = dropped.length === 0;
    if (dropped !== this.shown) fill(this.list, ...dropped.map(({ path, words }) => h("li", {}, icon("warn"), h("b", {}, revealPath(path)), ` ${plain(words)}`)));
    this.shown = dropped;
  }
}
