// An agent's panel: its contract, its transcript and its progress.

import { copyButton, fill, h, iconButton, setText, setAttr } from "./dom.js";
import { ContractForm, contractHead } from "./contract.js";
import { Conversation } from "./conversation.js";
import { StatusLine } from "./status-line.js";
import { plain, pluralize, formatUsage } from "./format.js";
import { ContractView } from "./message.js";
import { Questions } from "./questions.js";
import { StopButton } from "./stop-button.js";
import { isBusy } from "./store.js";
import { badge } from "./tabs.js";
import { TodoPanel } from "./todo.js";

export class AgentView {
  constructor({ tab, actions }) {
    Object.assign(this, { tab, actions });
    this.title = h("h2", {});
    this.contract = h("div", { class: "contract" });
    this.place = h("div", { class: "contract-place" });
    this.foot = new StatusLine({});
    const atRest = (act) => (change) => (this.busy ? actions.refuse("Stop the agent before you undo or redo a run.") : act(change));
    this.conversation = new Conversation({
      tab, foot: this.foot.el, userView: () => new ContractView(() => this.given?.text),
      actions: { loadEarlier: () => actions.loadEarlier(tab), loadSubagent: (call, session) => actions.loadSubagent(tab, call, session), reviewRun: actions.reviewRun, undoRun: atRest(actions.undoRun), redoRun: atRest(actions.redoRun), openFile: actions.openFile },
    });
    this.todo = new TodoPanel();
    this.questions = new Questions({ answer: (question, answer) => actions.answer(tab, question, answer), leave: () => this.focus() });
    this.stop = new StopButton((now) => actions.stop(tab, now));
    this.restart = h("button", { type: "button", class: "primary", onclick: () => this.#restart() }, "Restart");
    this.change = h("button", { type: "button", onclick: () => this.#edit(true) }, "Edit contract");
    this.review = h("button", { type: "button", hidden: true, onclick: () => actions.reviewOf(this.session) });
    this.reason = h("span", { class: "reason" });
    this.meter = h("span", { class: "meter" });
    this.state = h("span", { class: "state", role: "status" });
    this.log = h("span", { class: "log-file" });
    this.bar = h("div", { class: "agent-bar" }, this.stop.el, this.restart, this.change, this.review, this.reason, this.meter, this.state);
    const close = iconButton("close", "Close agent", () => actions.close(tab));
    this.el = h("div", { class: "panel agent" },
      h("div", { class: "panel-head" }, this.title, close),
      this.contract, this.place, this.conversation.el, this.todo.el, this.questions.el, this.bar, this.log);
    this.form = null;
    this.started = false;
  }

  shown() {
    this.conversation.shown();
  }

  hidden() {
    this.conversation.hidden();
  }

  focus() {
    if (this.form) this.form.focus();
    else if (!this.questions.focus()) this.conversation.log.focus();
  }

  update({ tab, transcript, state, changes }) {
    const busy = isBusy(tab);
    const stopping = state.stopping[tab.id];
    this.busy = busy;
    this.given = tab.contract;
    setText(this.title, tab.title);
    // The list of tabs arrives after the reply to a start. After a quick failure it never shows the agent as running.
    const ready = tab.status === "ready" || !tab.contract;
    if (!ready) this.started = false;
    if (ready && !this.started) this.#edit(true);
    else if (busy || this.form?.isFirst) this.#edit(false);
    this.#contract(tab.contract);
    this.foot.update({ tab, transcript, stopping });
    this.stop.update({ busy, stopping });
    this.restart.hidden = this.change.hidden = busy || Boolean(this.form);
    fill(this.state, badge(tab, stopping));
    setText(this.reason, plain(tab.reason));
    this.session = tab.session;
    this.review.hidden = busy || tab.waits === 0;
    setText(this.review, `Review ${pluralize(tab.waits, "hunk")}`);
    setText(this.meter, formatUsage(transcript.totals));
    this.#log(tab.log);
    const asked = transcript.questions !== this.asked && transcript.questions.length > 0;
    this.asked = transcript.questions;
    this.todo.update(transcript.todo, { busy });
    this.questions.update(transcript.questions);
    this.conversation.el.hidden = Boolean(this.form) && transcript.entries.length === 0;
    setAttr(this.el, "data-form", this.form ? "open" : null);
    this.conversation.update({ transcript, pending: [], changes });
    if (asked) this.questions.focusNew();
  }

  #edit(open) {
    if (open === Boolean(this.form)) return;
    this.form = open
      ? new ContractForm({
          tab: this.tab,
          contract: this.given,
          start: (contract) => this.#start(contract),
          cancel: this.given && (() => {
            this.#edit(false);
            this.actions.refresh();
          }),
        })
      : null;
    if (this.form) this.form.isFirst = !this.given;
    fill(this.place, this.form?.el);
    this.form?.focus();
    this.actions.refresh();
  }

  async #start(contract) {
    this.form.enable(false);
    const started = await this.actions.start(this.tab, contract);
    if (started) {
      this.started = true;
      this.#edit(false);
    } else this.form?.enable(true);
    this.conversation.scrollToEnd();
    if (!started) return;
    this.conversation.el.hidden = false;
    this.focus();
  }

  #restart() {
    this.actions.start(this.tab, this.given);
  }

  #contract(contract) {
    this.contract.hidden = !contract || Boolean(this.form);
    if (contract === this.shownContract || !contract) return;
    this.shownContract = contract;
    fill(this.contract, ...contractHead(contract));
  }

  #log(path) {
    if (path === this.shownLog) return;
    this.shownLog = path;
    fill(this.log, path && [h("span", {}, "Log: "), h("code", {}, plain(path)), copyButton(() => path, "Copy log path")]);
  }
}
