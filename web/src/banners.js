// Above all tabs: whether Newel and the host can be reached, and which tabs have a question.

import { fill, h, icon, setText } from "./dom.js";
import { plain } from "./format.js";
import { describeOutage } from "./host-status.js";

const DISCONNECTED = "Connection to Newel lost. Reconnecting… Messages you send are queued here. If Newel has stopped, start it "
  + "again with `newel web`.";

export class ConnectionBanner {
  constructor() {
    this.el = h("div", { class: "banner", role: "status", hidden: true });
  }

  update({ link, hello }) {
    const isLost = link === "lost" || (link === "connecting" && hello !== null);
    const text = isLost ? DISCONNECTED : describeOutage(hello?.host);
    this.el.hidden = !text;
    if (text) setText(this.el, text);
  }
}

export class QuestionBanner {
  #key = "";

  /** `showTab(id)` and `showReview()` go to the question. */
  constructor({ showTab, showReview }) {
    Object.assign(this, { showTab, showReview });
    this.el = h("div", { class: "banner asks", role: "alert", hidden: true });
  }

  update({ tab, asking, hasHiddenReviewQuestion }) {
    const elsewhere = asking.filter(({ id }) => id !== tab?.id);
    this.el.hidden = elsewhere.length === 0 && !hasHiddenReviewQuestion;
    const key = JSON.stringify([elsewhere.map(({ id, title }) => [id, title]), hasHiddenReviewQuestion]);
    if (key === this.#key) return;
    this.#key = key;
    const button = (name, onclick) => h("button", { type: "button", onclick }, icon("question"), `${name} is waiting for your answer`);
    fill(this.el,
      ...elsewhere.map(({ id, title }) => button(plain(title), () => this.showTab(id))),
      hasHiddenReviewQuestion && button("The review agent", this.showReview));
  }
}
