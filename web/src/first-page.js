// What the page shows while no tab is open: a message box that opens a chat, and the latest conversations.

import { Composer } from "./composer.js";
import { fill, h, setText } from "./dom.js";
import { formatTime, plain, pluralize, shortFolder } from "./format.js";

const MAX_RECENT = 6;

export class FirstPage {
  /** `actions` of the message box, and: startChat(text, attachments), sessions(), openSession(id), newAgent(), findSession(). `setup` is the form for a model. */
  constructor({ actions, setup }) {
    this.actions = actions;
    this.folder = h("code", {});
    this.composer = new Composer({
      tab: "",
      actions: {
        ...actions, send: actions.startChat,
        stop: () => {},
        editLast: () => false,
      },
    });
    this.recent = h("ul", { class: "recent-list" });
    this.recentPart = h("section", { class: "recent", "aria-label": "Recent conversations", hidden: true },
      h("h3", {}, "Recent conversations"), this.recent);
    this.el = h("div", { class: "first-page" },
      h("div", { class: "column" },
        setup,
        h("h2", {}, "New chat"),
        h("p", { class: "dim" }, "Describe a task in ", this.folder, "."),
        this.composer.el,
        this.recentPart,
        h("p", { class: "row" },
          h("button", { type: "button", onclick: actions.findSession }, "All conversations…"),
          h("button", { type: "button", onclick: actions.newAgent }, "New agent"),
          h("span", { class: "dim" }, "An agent works until its contract is fulfilled."))));
  }

  shown() {
    this.#load();
  }

  hidden() {}

  focus() {
    this.composer.focus();
  }

  update({ hello, link, newChat }) {
    setText(this.folder, plain(shortFolder(hello.project, hello.home)));
    this.composer.update({ busy: false, totals: {}, link, approve: newChat.approve ?? hello.approve, thinking: newChat.thinking ?? hello.thinking });
  }

  async #load() {
    const sessions = await this.actions.sessions().catch(() => []);
    this.recentPart.hidden = sessions.length === 0;
    fill(this.recent, ...sessions.slice(0, MAX_RECENT).map(({ id, title, messages, modified }) =>
      h("li", {}, h("button", { type: "button", class: "quiet recent-chat", onclick: () => this.actions.openSession(id) },
        h("span", { class: "recent-title" }, plain(title) || "Untitled"),
        h("span", { class: "dim" }, `${formatTime(1_000 * modified)} · ${pluralize(messages ?? 0, "message")}`)))));
  }
}
