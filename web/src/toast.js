// Toasts for failures. They stay until dismissed, and offer Retry where that can help.

import { h, icon, iconButton } from "./dom.js";

const MAX_TOASTS = 5;

export class Toasts {
  constructor() {
    this.el = h("div", { class: "toasts", role: "region", "aria-label": "Notices" });
  }

  /** Show a failure, with a Retry button if `retry` is given. */
  failed(words, retry = null) {
    const again = retry && h("button", {
      type: "button",
      onclick: () => {
        toast.remove();
        retry();
      },
    }, "Retry");
    const toast = h("div", { class: "toast", role: "alert" }, icon("warn"), h("span", { class: "toast-words" }, words), again,
      iconButton("close", "Dismiss", () => toast.remove()));
    this.el.append(toast);
    while (this.el.children.length > MAX_TOASTS) this.el.firstChild.remove();
  }
}
