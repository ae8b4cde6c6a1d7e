// The queued messages of a chat, above the message box: each can be edited, withdrawn or sent now.

import { h, icon, iconButton, onceClicked, reconcile, setAttr, setText } from "./dom.js";
import { plain } from "./format.js";
import { textOf } from "./message.js";

export class QueuedMessages {
  /** `actions`: edit(message), withdraw(message), sendNow(message), each with a message of the queue. */
  constructor(actions) {
    this.actions = actions;
    this.views = new Map();
    this.list = h("ul", { class: "queue-list" });
    this.state = h("span", {});
    this.words = h("span", { class: "hint" }, " Stop and Esc hold messages back.");
    this.note = h("p", { class: "queue-note dim" }, this.state, this.words);
    this.el = h("section", { class: "queue", "aria-label": "Queued messages", hidden: true }, this.note, this.list);
  }

  /** `queued` as `divideQueue` returns them. */
  update(queued) {
    this.el.hidden = queued.length === 0;
    const isHeld = queued.some(({ held }) => held);
    const held = `${queued.length} held · The run was stopped. Continue sends all.`;
    setText(this.state, isHeld ? held : queued.length > 0 ? `${queued.length} queued · Sent after the current tools.` : "");
    this.words.hidden = isHeld;
    const first = queued.find(({ message, held }) => message && !held)?.message.id;
    reconcile(this.list, this.views, queued, {
      keyOf: ({ id, message }) => id ?? message.id,
      create: () => new QueuedMessage(this.actions),
      update: (view, each) => view.update(each, { canSend: each.held || each.message?.id === first }),
    });
  }
}

class QueuedMessage {
  constructor(actions) {
    this.text = h("span", { class: "queued-text", dir: "auto" });
    this.state = h("span", { class: "aside" });
    const click = (action) => onceClicked(() => actions[action](this.message));
    this.buttons = [
      h("button", { type: "button", class: "quiet", onclick: click("sendNow") }, icon("send"), "Send now"),
      iconButton("edit", "Edit", click("edit"), { title: "Move it back to the message box" }),
      iconButton("close", "Withdraw", click("withdraw")),
    ];
    this.el = h("li", { class: "queued" }, this.text, this.state, h("span", { class: "queued-actions" }, this.buttons));
  }

  /** A message of the queue, or one that is on its way there and has no actions yet. */
  update({ message = null, held = false, text, attachments = message?.attachments ?? [] }, { canSend }) {
    this.message = message;
    const said = plain(message ? textOf(message) : text).trim();
    const files = attachments.length ? ` (${attachments.map(({ fileName }) => plain(fileName)).join(", ")})` : "";
    setText(this.text, said + files);
    setAttr(this.text, "title", said);
    setText(this.state, message ? "" : "sending");
    const [now, ...others] = this.buttons;
    now.hidden = !message || !canSend;
    for (const button of others) button.hidden = !message;
    setAttr(now, "title", held ? null : "Stop the run now and send the queued messages");
  }
}
