// Dialogs. The browser's own element handles focus, Escape and the inert page behind.

import { h, iconButton } from "./dom.js";

/** Open a dialog; resolves to the value given to `close(value)`, undefined on Escape or a click outside. */
export function openDialog({ label, kind = "", build }) {
  return new Promise((resolve) => {
    const done = (value) => {
      dialog.remove();
      resolve(value);
    };
    const dialog = h("dialog", {
      class: `dialog ${kind}`, "aria-label": label,
      onclose: () => done(),
      onclick: (event) => event.target === dialog && dialog.close(),
    });
    // The close event fires later. The caller may open another dialog next, and keys typed in between would be lost: so
    // the promise is resolved at once.
    const close = (given) => {
      dialog.close();
      done(given);
    };
    dialog.append(h("div", { class: "dialog-body" }, ...[build(close)].flat()));
    document.body.append(dialog);
    dialog.showModal();
  });
}

export const dialogHead = (title, close) =>
  h("div", { class: "dialog-head" }, h("h2", {}, title), iconButton("close", "Close", () => close()));

/** Ask before something that cannot be undone; resolves to true or undefined. */
export const confirm = ({ title, words, yes }) =>
  openDialog({
    label: title,
    build: (close) => [
      h("h2", {}, title),
      h("p", {}, words),
      h("div", { class: "row" },
        h("button", { type: "button", class: "primary", autofocus: true, onclick: () => close() }, "Cancel"),
        h("button", { type: "button", class: "danger", onclick: () => close(true) }, yes)),
    ],
  });

/** Ask for a line of text; resolves to it or undefined. */
export const askText = ({ title, value }) =>
  openDialog({
    label: title,
    build(close) {
      const input = h("input", { type: "text", "aria-label": title, value, maxlength: "200", autofocus: true, required: true });
      const form = h(
        "form",
        {
          onsubmit: (event) => {
            event.preventDefault();
            close(input.value.trim());
          },
        },
        h("h2", {}, title), input,
        h("div", { class: "row" },
          h("button", { type: "submit", class: "primary" }, "Rename"),
          h("button", { type: "button", onclick: () => close() }, "Cancel")),
      );
      return form;
    },
  });
