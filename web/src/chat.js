// A chat's panel: the conversation, the open questions and the composer.

import { h } from "./dom.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { describeExcess, plain, shortFolder } from "./format.js";
import { localStore } from "./local-storage.js";
import { StatusLine } from "./status-line.js";
import { isBlocked, textOf, UserView } from "./message.js";
import { Questions } from "./questions.js";
import { QueuedMessages } from "./queue.js";
import { isBusy } from "./store.js";
import { TodoPanel } from "./todo.js";
import { divideQueue } from "./transcript.js";

export class ChatView {
  constructor({ tab, actions }) {
    this.sent = new Map(); // messages that were sent from here and are not in the conversation yet, by id
    this.title = h("h2", { class: "sr-only" });
    this.folder = h("code", {});
    const empty = h("div", { class: "empty", hidden: true },
      h("p", { class: "empty-title" }, "No messages yet."),
      h("p", {}, "Describe a task in ", this.folder, "."));
    this.foot = new StatusLine({ retry: () => actions.retry(tab) });
    this.conversation = new Conversation({
      tab, empty, foot: this.foot.el,
      userView: () => new UserView({
        edit: (entry, text) => {
          this.conversation.scrollToEnd();
          actions.send(tab, text, { before: entry.id, attachments: entry.message.attachments });
        },
        goBack: (entry) => this.#openRewind(actions, entry),
        show: (id) => actions.switchBranch(tab, id),
        mayEdit: (text = "") => this.#mayChange("edit a message or go back") && (!describeExcess(text) || this.refuse(describeExcess(text))),
        drafts: editsOf(tab),
      }),
      actions: {
        resend: (message) => actions.resend(tab, message),
        discard: (message) => actions.discard(tab, message.id),
        bringBack: (id) => actions.switchBranch(tab, id),
        loadEarlier: () => actions.loadEarlier(tab),
        loadSubagent: (call, session) => actions.loadSubagent(tab, call, session),
        reviewRun: actions.reviewRun,
        undoRun: (change) => this.#mayChange("undo one") && actions.undoRun(change),
        redoRun: (change) => this.#mayChange("redo one") && actions.redoRun(change),
        openFile: actions.openFile,
      },
    });
    this.refuse = actions.refuse;
    this.todo = new TodoPanel();
    this.edit = async (message) => (await actions.withdraw(tab, message.id)) && this.composer.restore(textOf(message), message.attachments ?? []);
    this.queued = new QueuedMessages({
      edit: this.edit,
      withdraw: ({ id }) => actions.withdraw(tab, id),
      sendNow: ({ id }) => actions.sendNow(tab, id),
    });
    this.questions = new Questions({ answer: (question, answer) => actions.answer(tab, question, answer), leave: () => this.focus() });
    this.composer = new Composer({
      tab,
      actions: {
        send: (text, attachments) => {
          this.conversation.scrollToEnd();
          actions.send(tab, text, { attachments });
          return true;
        },
        stop: (now) => actions.stop(tab, now),
        refuse: actions.refuse,
        chooseApprove: actions.chooseApprove,
        chooseThinking: actions.chooseThinking,
        editLast: () => this.#editLast(),
        findFiles: actions.findFiles,
        paths: actions.paths,
        chatCommands: actions.chatCommands,
      },
    });
    this.el = h("div", { class: "panel chat" }, this.title, this.conversation.el, this.todo.el, this.questions.el, this.queued.el, this.composer.el);
  }

  #mayChange(what) {
    return !this.busy || this.refuse(`Stop the run before you ${what}.`);
  }

  /** Edit the user's last message: one that waits goes back to the box. Returns whether there is one. */
  #editLast() {
    const waiting = this.queue.at(-1);
    if (waiting) this.edit(waiting.message);
    return Boolean(waiting) || this.conversation.editLast();
  }

  async #openRewind(actions, entry) {
    let isMoved = false;
    await actions.rewind(this.tab, entry, async () => (isMoved = await this.#goBack(actions, entry)));
    if (isMoved) this.composer.focus(); // where its words are: the button that had the focus is gone with the message
  }

  /** Move the conversation to before a message, which goes to the message box; returns whether it moved. */
  async #goBack(actions, { id, message }) {
    const isMoved = await actions.switchBranch(this.tab.id, id, { before: true });
    if (isMoved) this.composer.restore(textOf(message), message.attachments ?? []);
    return Boolean(isMoved);
  }

  /** Put the words of a prompt that a hook blocks back into the message box: the conversation has a note in their place. */
  #takeBackBlocked({ entries }, pending) {
    for (const message of pending) this.sent.set(message.id, message);
    for (const [id, { text, attachments }] of this.sent) {
      const entry = entries.findLast((each) => each.id === id);
      if (!entry) continue;
      this.sent.delete(id);
      if (isBlocked(entry.message)) this.composer.restore(text, attachments ?? []);
    }
  }

  shown() {
    this.conversation.shown();
  }

  hidden() {
    this.conversation.hidden();
  }

  focus() {
    if (!this.questions.focus()) this.composer.focus();
  }

  update({ tab, transcript, state, changes }) {
    const busy = isBusy(tab);
    Object.assign(this, { busy, tab, queue: transcript.queue });
    const pending = state.pending[tab.id] ?? [];
    const stopping = state.stopping[tab.id];
    this.title.textContent = tab.title;
    this.folder.textContent = plain(shortFolder(tab.folder || state.hello.project, state.hello.home));
    this.foot.update({ tab, transcript, stopping, pending });
    const asked = transcript.questions !== this.asked && transcript.questions.length > 0;
    this.asked = transcript.questions;
    this.todo.update(transcript.todo, { busy });
    this.questions.update(transcript.questions);
    this.composer.update({ busy, stopping, totals: transcript.totals, link: state.link, ...modesOf(tab, state.hello) });
    const { queued, next } = divideQueue(transcript, pending, { busy });
    this.queued.update(queued);
    this.conversation.update({ transcript, pending: next, changes, isResting: !busy && pending.length === 0 });
    this.#takeBackBlocked(transcript, pending);
    if (asked) this.questions.focusNew();
  }
}

/** The unsent edits of a tab's messages, which survive a reload. */
const editsOf = (tab) => ({
  get: (id) => localStore.get(`edits:${tab}`)?.[id] ?? null,
  set(id, text) {
    const { [id]: _, ...others } = localStore.get(`edits:${tab}`) ?? {};
    const edits = text === null ? others : { ...others, [id]: text };
    localStore.set(`edits:${tab}`, Object.keys(edits).length > 0 ? edits : null);
  },
});

/** The modes of a chat, or else those of the server. */
const modesOf = (tab, hello) => ({ approve: tab.approve ?? hello.approve, thinking: tab.thinking ?? hello.thinking });
