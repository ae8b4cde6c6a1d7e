// The message box with its stored draft, Send (which queues during a run) and Stop.

import { Attachments } from "./attachments.js";
import { Completion } from "./completion.js";
import { fill, h, icon, setAttr, setText } from "./dom.js";
import { describeExcess, formatUsage } from "./format.js";
import { localStore } from "./local-storage.js";
import { StopButton } from "./stop-button.js";

const LONG_PASTE = 50_000; // characters
const COMMAND = /^\/([A-Za-z0-9][\w.-]*)(?:\s[\s\S]*)?$/;

export class Composer {
  /** `actions`: send(text, attachments), which resolves to false if the message stays in the box, stop(now), refuse(words), editLast(), findFiles(part), paths(part), chatCommands(), chooseApprove(), chooseThinking(). */
  constructor({ tab, actions }) {
    Object.assign(this, { tab, actions });
    this.attachments = new Attachments({ tab, refuse: actions.refuse, changed: () => this.#ready() });
    this.area = h("textarea", {
      class: "composer-area", rows: "1", "aria-label": "Message", placeholder: "Message", dir: "auto",
      value: localStore.get(`draft:${tab}`) ?? "",
      oninput: () => {
        this.#drafted();
        this.completion.update();
      },
      onkeydown: (event) => this.#key(event),
      onpaste: (event) => this.#paste(event),
    });
    this.completion = new Completion({
      area: this.area, files: actions.findFiles, paths: actions.paths, commands: actions.chatCommands, changed: () => this.#drafted(),
    });
    this.send = h(
      "button",
      { type: "submit", class: "primary send", "aria-keyshortcuts": "Enter" },
      h("span", { class: "send-words" }, "Send"), icon("send"),
    );
    this.words = this.send.firstChild;
    this.stop = new StopButton(actions.stop);
    this.meter = h("span", { class: "meter" });
    this.approve = h("button", { type: "button", class: "quiet composer-mode", onclick: () => actions.chooseApprove() });
    this.thinking = h("button", { type: "button", class: "quiet composer-mode", onclick: () => actions.chooseThinking() });
    this.hint = h("span", { class: "hint" });
    this.el = h(
      "form",
      {
        class: "composer",
        onsubmit: (event) => {
          event.preventDefault();
          this.#submit();
        },
        ondragover: (event) => event.preventDefault(),
        ondrop: (event) => this.#files(event, event.dataTransfer.files),
      },
      this.attachments.el, this.completion.el,
      h("div", { class: "composer-row" }, this.attachments.button, this.attachments.input, this.area, this.stop.el, this.send),
      h("div", { class: "composer-foot" }, h("span", { class: "composer-modes" }, this.approve, this.thinking), this.hint, this.meter),
    );
    this.#ready();
  }

  focus() {
    this.area.focus();
  }

  update({ busy, stopping, totals, link, approve, thinking }) {
    this.#mode(this.approve, approve, `Approval mode: ${approve}`);
    this.#mode(this.thinking, `thinking ${thinking}`, `Thinking: ${thinking}`);
    const isFixed = approve === "review"; // the chat works in a copy of the project
    this.approve.disabled = isFixed;
    setAttr(this.approve, "title", isFixed ? "Changes wait for your review. Start Newel with another --approve to switch." : "Choose which calls are asked about");
    this.stop.update({ busy, stopping });
    setText(this.words, busy ? "Queue" : "Send");
    const stops = { soon: " · Esc to stop now", now: "" }[stopping] ?? " · Esc to stop";
    const keys = busy ? `Enter to queue${stops}` : "Enter to send · Shift+Enter for a new line · @ files · / commands";
    setText(this.hint, link === "open" ? keys : "Offline. Messages are sent when the connection is back.");
    setText(this.meter, formatUsage(totals));
  }

  #mode(button, words, label) {
    if (button.textContent !== words) fill(button, words, icon("down"));
    setAttr(button, "aria-label", label);
  }

  /** Put a withdrawn message back to be edited, before the current draft. */
  restore(text, attachments) {
    this.area.value = [text, this.area.value].filter((each) => each.trim()).join("\n\n");
    this.attachments.restore(attachments);
    this.#drafted();
    this.area.focus();
    this.area.setSelectionRange(text.length, text.length);
  }

  /** Drop the draft that another window has sent or removed: it would be sent twice. Another text is stored again, as all windows share the place. */
  dropRemoved(removed) {
    this.attachments.dropRemoved(removed);
    if (removed.key !== `draft:${this.tab}`) return;
    if (removed.old === this.area.value) this.area.value = "";
    this.#drafted();
  }

  async #submit() {
    const text = this.area.value;
    await this.attachments.loaded;
    if (!text.trim() && this.attachments.files.length === 0) return;
    const excess = describeExcess(text);
    if (excess) return void this.actions.refuse(excess);
    const name = COMMAND.exec(text)?.[1];
    const entries = name ? await this.actions.chatCommands().catch(() => null) : null;
    if (this.area.value !== text) return; // it was sent, or typed on, meanwhile
    const command = entries?.find((entry) => entry.name === name);
    if (entries && !command) return void this.actions.refuse(`There is no command /${name}. Type / to see all; a space before it sends it as text.`);
    if (command?.run) {
      this.area.value = "";
      this.#drafted();
      return command.run();
    }
    this.completion.close();
    if (this.isSending) return;
    this.isSending = true;
    const isSent = await this.actions.send(text, [...this.attachments.files]);
    this.isSending = false;
    if (isSent === false) return;
    this.attachments.take();
    if (this.area.value === text) this.area.value = "";
    this.#drafted();
  }

  #key(event) {
    if (this.completion.key(event)) return;
    if (event.key === "ArrowUp" && this.area.value === "" && this.actions.editLast()) event.preventDefault();
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      this.#submit();
    }
  }

  /** Attach pasted files, and as a file a text that would make the box slow. A picture that comes with its formatted text, such as cells, is left out. */
  #paste(event) {
    const { files, types } = event.clipboardData;
    const text = event.clipboardData.getData("text/plain");
    const isText = types.includes("text/html") && text.trim();
    if (files.length > 0 && !isText) this.#files(event, files);
    else if (text.length > LONG_PASTE) this.#files(event, [new File([text], "pasted.txt", { type: "text/plain" })]);
  }

  #files(event, files) {
    event.preventDefault();
    this.attachments.add(files);
  }

  #drafted() {
    localStore.set(`draft:${this.tab}`, this.area.value);
    this.area.rows = Math.min(12, this.area.value.split("\n").length);
    this.#ready();
  }

  #ready() {
    if (this.send) this.send.disabled = !this.area.value.trim() && this.attachments.files.length === 0;
  }
}
