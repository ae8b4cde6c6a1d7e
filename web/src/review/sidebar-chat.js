// The chat of the review session: instructions and answers.

import { h } from "../dom.js";
import { formatTime, plain, pluralize } from "../format.js";

const MAX_SHOWN = 40; // entries that are shown, the latest

export class SessionChat {
  constructor({ newSession, requests }) {
    this.list = h("ol", { class: "session-chat" });
    this.fresh = h("button", { type: "button", onclick: newSession }, "New session");
    this.el = h("section", { class: "session", "aria-label": "Session" },
      h("div", { class: "section-head" }, h("span", {}, "Session"),
        h("span", { class: "row" }, h("button", { type: "button", onclick: requests }, "Earlier requests"), this.fresh)), this.list);
  }

  /** `isFree`: whether a new session can be started. */
  update({ session, isFree }) {
    const chat = session?.chat ?? [];
    this.fresh.disabled = !isFree || chat.length === 0;
    this.fresh.hidden = chat.length === 0;
    const key = JSON.stringify(chat);
    if (key === this.shown) return;
    this.shown = key;
    const left = chat.length - MAX_SHOWN;
    this.list.replaceChildren(
      ...(left > 0 ? [h("li", { class: "dim" }, `${pluralize(left, "message")} earlier`)] : []),
      ...chat.slice(-MAX_SHOWN).map(entry),
    );
  }
}

const entry = ({ role, text, ts, tool_calls: calls }) =>
  h("li", { class: `said-by-${role}` },
    h("span", { class: "who" }, [role === "user" ? "You" : "Agent", formatTime(Date.parse(ts)), calls > 0 && pluralize(calls, "tool call")]
      .filter(Boolean).join(" · ")),
    h("div", { class: "words" }, plain(text)));
