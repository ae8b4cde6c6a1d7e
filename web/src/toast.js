// Short messages at the edge. What went wrong stays until it is closed, with Retry where that can help.

import { h, icon, iconButton } from "./dom.js";

const SHORT = 4_000; // ms that a mere notice stays
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
    const toast = this.#show("bad", "alert", "warn", words, again);
  }

  tell(words) {
    const toast = this.#show("info", "status", "check", words, null);
    setTimeout(() => toast.remove(), SHORT);
  }

  #show(kind, role, picture, words, button) {
    const toast = h("div", { class: `toast ${kind}`, role }, icon(picture), h("span", { class: "toast-words" }, words), button,
      iconButton("close", "Close notice", () => toast.remove()));
    this.el.append(toast);
    while (this.el.children.length > MOST) this.el.firstChild.remove();
    return toast;
  }
}
