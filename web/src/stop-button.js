// The Stop button: the first press stops the run before its next request, the second at once. It responds immediately.

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
    const held = "Queued messages are held.";
    setAttr(this.el, "title", stopping === "soon" ? `Stop running tools now. ${held}` : `Stop before the next model request. ${held}`);
  }
}
