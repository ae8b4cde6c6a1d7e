// Toasts for failures. They stay until dismissed, and offer Retry where that can help.

import { h, icon, iconButton } from "./dom.js";

const MAX_TOASTS = 5;

export class Toasts {
  constructor() {
    this.el = h("div", { class: "toasts", role: "region", "aria-label": "Notices", onfocusin: ({ relatedTarget }) => this.#entered(relatedTarget) });
    this.origin = null; // of the focus, before it came here
  }

  /** Show a failure, with a Retry button if `retry` is given. */
  failed(words, retry = null) {
    const again = retry && h("button", {
      type: "button",
      onclick: () => {
        this.#remove(toast);
        retry();
      },
    }, "Retry");
    const toast = h("div", { class: "toast", role: "alert" }, icon("warn"), h("span", { class: "toast-words" }, words), again,
      iconButton("close", "Dismiss", () => this.#remove(toast)));
    this.el.append(toast);
    while (this.el.children.length > MAX_TOASTS) this.#remove(this.el.firstChild);
  }

  #entered(from) {
    if (from && !this.el.contains(from)) this.origin = from;
  }

  /** Remove a toast; the next one gets its focus, or the element that had it before. */
  #remove(toast) {
    const hadFocus = toast.contains(document.activeElement);
    toast.remove();
    if (hadFocus) (this.el.querySelector("button") ?? this.origin)?.focus();
  }
}
