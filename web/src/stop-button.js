// Stop: the first press ends a run before its next request, the second one at once. What was pressed shows at once.

import { h, icon, setText, setAttr } from "./dom.js";

export class StopButton {
  constructor(stop) {
    this.words = h("span", {}, "Stop");
    this.el = h(
      "button",
      {
        type: "button",
        class: "stop",
        hidden: true,
        onclick: () => stop(this.stopping !== undefined),
      },
      icon("stop"), this.words,
    );
  }

  /** `stopping`: undefined, "soon" or "now". */
  update({ busy, stopping }) {
    this.stopping = stopping;
    this.el.hidden = !busy;
    this.el.disabled = stopping === "now";
    setAttr(this.el, "data-stopping", stopping);
    setText(this.words, { soon: "Stop now", now: "Stopping…" }[stopping] ?? "Stop");
    const held = "Messages that wait are kept and not sent.";
    setAttr(this.el, "title", stopping === "soon" ? `Stops at once what still runs. ${held}` : `Stops before the next request to the model. ${held}`);
  }
}
