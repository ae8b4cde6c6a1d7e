// Dialogs: the browser's own, so that focus, Escape and what lies behind are right.

import { h, iconButton } from "./dom.js";

/** Open a dialog; resolves with what `close(value)` was given, undefined by Escape or a click beside it. */
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
    // The browser tells of a closing only later. What follows on it may open another dialog, and what is typed in between
    // would go elsewhere: so who waits is told at once.
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

/** Ask before something that cannot be taken back; resolves to true or undefined. */
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
