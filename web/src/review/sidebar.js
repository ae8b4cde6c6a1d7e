// The review column: the agent's question, its job, the pending changes and the next instruction.

import { modeSelect } from "../agent-modes.js";
import { fill, h, icon, setText } from "../dom.js";
import { localStore } from "../local-storage.js";
import { ClarifyCard } from "./clarify-card.js";
import { PromptContext } from "./prompt-context.js";
import { HunkList } from "./hunk-list.js";
import { JobCard } from "./job-card.js";
import { isLive } from "./job-state.js";
import { SessionChat } from "./sidebar-chat.js";
import { ReviewSession } from "./sidebar-session.js";

const DRAFT = "review-draft"; // draft of the instruction
const STARTED_FOR = "review-draft-for"; // the question that was open when the draft was started

export class Sidebar {
  /** `asked(count)` is called with the number of open questions. */
  constructor({ review, api, waiting, selection, openFile, open, origins, announce, revise, asked = () => {} }) {
    Object.assign(this, { review, asked });
    const work = new ReviewSession({ api, review, announce, changed: () => this.#schedule() });
    this.work = work;
    this.clarify = new ClarifyCard({ answer: (question, text) => work.answer(question, text) });
    this.job = new JobCard({ cancel: work.cancel, rerun: work.rerun, again: () => work.again(work.state.job), end: work.end });
    this.hunks = new HunkList({ api, review, waiting, openFile, origins, announce, revise });
    this.context = new PromptContext({ api, selection, announce });
    this.chat = new SessionChat({ newSession: work.newSession, requests: () => open("requests") });
    this.problem = h("p", { class: "problem bad-text", role: "alert" });
    this.el = h("div", { class: "review-sidebar", onkeydown: (event) => this.#key(event) },
      this.clarify.el, this.job.el, this.hunks.el,
      h("div", { class: "next" }, this.context.el, this.#box(), this.problem),
      this.chat.el);
    review.subscribe(() => {
      this.#schedule();
      work.hint();
    });
    work.start();
  }

  #box() {
    this.area = h("textarea", {
      rows: "3", "aria-label": "Instruction", placeholder: "What should change?", dir: "auto", value: localStore.get(DRAFT) ?? "",
      oninput: () => this.#drafted(),
      onkeydown: (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.altKey) return;
        event.preventDefault();
        this.#enter();
      },
    });
    this.question = null;
    this.isBegun = this.area.value !== "";
    this.startedFor = localStore.get(STARTED_FOR);
    this.refusal = "";
    this.go = h("button", { type: "submit", class: "primary" }, "Propose");
    this.later = h("button", { type: "button", hidden: true, onclick: () => this.#instruct() }, "Queue as instruction");
    this.mode = modeSelect("Agent mode");
    this.hint = h("span", { class: "dim" });
    return h("form", {
      class: "instruction", "aria-label": "Next instruction",
      onsubmit: (event) => {
        event.preventDefault();
        if (this.question) this.#answer();
        else this.#instruct();
      },
    }, this.area, h("div", { class: "row" }, this.go, this.later, this.mode, this.hint));
  }

  /** Show the current state. */
  update() {
    const { session, job, others, problem, trouble, isBusy } = this.work.state;
    const state = this.review.get();
    const { isUp, pending } = state;
    const question = job?.question ?? null;
    const isUnderWay = job !== null && isLive(job.status);
    if (question?.question_id !== this.question?.question_id) this.refusal = "";
    this.question = question;
    const wasIn = this.clarify.el.contains(document.activeElement);
    this.clarify.update({ question, isUp });
    if (wasIn && question === null) this.job.focus();
    this.job.update({ job, files: pending, isUp, isBusy });
    this.hunks.update(state);
    if (session !== undefined) this.context.update(session);
    this.chat.update({ session, isFree: isUp && !isBusy && !isUnderWay });
    this.isReady = isUp && !isBusy && session !== undefined;
    this.#ready();
    setText(this.go, question ? "Answer" : "Propose");
    this.later.hidden = question === null;
    const keys = question ? "Enter to answer the question" : isUnderWay ? "Enter to queue it behind the job" : "Enter to send · Shift+Enter for a new line";
    setText(this.hint, isUp ? keys : "Not connected to Newel. Your draft is saved.");
    const words = this.refusal || problem || trouble;
    if (words !== this.said) fill(this.problem, words && [icon("warn"), words]);
    this.said = words;
    const questions = others + (question ? 1 : 0);
    if (questions !== this.questions) this.asked((this.questions = questions));
  }

  /** Focus the open question, else the instruction; in a sheet the pending changes, as a text box opens the screen keyboard. */
  focus({ isSheet }) {
    if (!this.clarify.el.hidden) this.clarify.focus();
    else if (isSheet && this.review.get().pending?.length) this.hunks.title.focus();
    else this.area.focus();
  }

  /** Update once per frame. A page in the background has no frames, but its title shows questions. */
  #schedule() {
    const next = document.hidden ? setTimeout : requestAnimationFrame;
    this.frame ??= next(() => {
      this.frame = null;
      this.update();
    });
  }

  /** Let an agent propose a hunk anew, in the chosen mode; resolves to an error message, or "". */
  revise = (path, hunk, words) => this.work.revise(path, hunk, words, this.mode.value);

  /** Submit a job's instruction again; resolves to whether that succeeded. */
  again = (job) => this.work.again(job);

  /** An open question has priority, but a draft started before it is not sent as its answer. */
  #enter() {
    if (!this.question) return this.#instruct();
    if (!this.area.value.trim()) return;
    if (this.startedFor === this.question.question_id) return this.#answer();
    this.refusal = "The agent asked a question while you were writing. Choose Answer, or Queue as instruction.";
    this.update();
  }

  #answer() {
    const { question } = this;
    return this.#send(async (text) => {
      this.refusal = await this.work.answer(question, text);
      this.update();
      return this.refusal === "";
    });
  }

  #instruct() {
    return this.#send((text) => this.work.send(text, this.mode.value, () => this.context.toSend()));
  }

  async #send(give) {
    const text = this.area.value;
    if (!text.trim() || !this.isReady || this.isSending) return;
    this.isSending = true;
    const isDone = await give(text).finally(() => (this.isSending = false));
    if (!isDone || this.area.value !== text) return;
    this.area.value = "";
    this.#drafted();
  }

  #drafted() {
    const isBegun = this.area.value !== "";
    if (isBegun && !this.isBegun) localStore.set(STARTED_FOR, (this.startedFor = this.question?.question_id ?? null));
    this.isBegun = isBegun;
    if (this.refusal) {
      this.refusal = "";
      this.update();
    }
    localStore.set(DRAFT, this.area.value);
    this.#ready();
  }

  #ready() {
    this.go.disabled = this.later.disabled = !this.isReady || !this.area.value.trim();
  }

  #key(event) {
    if (event.key.toLowerCase() !== "s" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
    event.preventDefault();
    this.hunks.saveAccepted();
  }
}
