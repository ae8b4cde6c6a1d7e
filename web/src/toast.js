// Short messages at the edge: what went wrong stays until it is closed, with Retry where that can help.

import { h, icon, iconButton } from "./dom.js";

const MOST = 5;

export class Toasts {
  constructor() {
    this.el = h("div", { class: "toasts", role: "region", "aria-label": "Notices" });
  }

  /** Something failed; `retry` is called by its button. */
  failed(words, retry = null) {
    const again = retry && h("button", {
      type: "button",
      onclick: () => {
        toast.remove();
        retry();
      },
    }, "Retry");
    const toast = h("div", { class: "toast", role: "alert" }, icon("warn"), h("span", { class: "toast-words" }, words), again,
      iconButton("close", "Close notice", () => toast.remove()));
    this.el.append(toast);
    while (this.el.children.length > MOST) this.el.firstChild.remove();
  }
}
