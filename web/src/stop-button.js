// Stop: the first press ends a run before its next request, the second one at once. What was pressed shows at once.

import { h, icon, say, set } from "./dom.js";

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
    set(this.el, "data-stopping", stopping);
    say(this.words, { soon: "Stop now", now: "Stopping…" }[stopping] ?? "Stop");
    const held = "Messages that wait are kept and not sent.";
    set(this.el, "title", stopping === "soon" ? `Stops at once what still runs. ${held}` : `Stops before the next request to the model. ${held}`);
  }
}
