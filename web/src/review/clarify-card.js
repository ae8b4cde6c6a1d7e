// An agent's question to the user, which suspends its job: one at a time.

import { fill, h, icon, setText } from "../dom.js";
import { newId, reveal } from "../format.js";
import { localStore } from "../local-storage.js";

const DRAFTS = "review-answers"; // question id → draft of the answer; survives a reload
const MAX_DRAFTS = 20; // drafts that are stored, the latest
const draftOf = (id) => localStore.get(DRAFTS)?.[id] ?? "";

function keepDraft(id, text) {
  const { [id]: _, ...others } = localStore.get(DRAFTS) ?? {};
  localStore.set(DRAFTS, Object.fromEntries([...Object.entries(others), ...(text ? [[id, text]] : [])].slice(-MAX_DRAFTS)));
}

export class ClarifyCard {
  /** `answer(text)` sends an answer, null to skip; it resolves to an error message, or "". */
  constructor({ answer }) {
    this.answer = answer;
    this.question = null;
    const [title, words] = [`asks-${newId()}`, `asked-${newId()}`];
    this.words = h("p", { class: "words", id: words });
    this.area = h("textarea", {
      rows: "2", "aria-label": "Your answer", dir: "auto",
      oninput: () => this.question && keepDraft(this.question.question_id, this.area.value),
      onkeydown: (event) => {
        if (event.key !== "Enter" || event.shiftKey) return;
        event.preventDefault();
        this.#send(this.area.value);
      },
    });
    this.go = h("button", { type: "submit", class: "primary" }, "Answer");
    this.skip = h("button", { type: "button", onclick: () => this.#send(null) }, "Skip");
    this.problem = h("p", { class: "problem bad-text" });
    this.el = h("form", {
      class: "question clarify", "aria-labelledby": title, "aria-describedby": words, hidden: true,
      onsubmit: (event) => {
        event.preventDefault();
        this.#send(this.area.value);
      },
    },
    h("h3", { id: title }, icon("question"), "The agent asks"),
    this.words, this.area,
    h("div", { class: "row" }, this.go, this.skip, h("span", { class: "dim" }, "Enter to answer")),
    this.problem);
  }

  update({ question, isUp }) {
    this.el.hidden = question === null;
    for (const each of [this.go, this.skip]) each.disabled = !isUp || this.isBusy;
    if (question?.question_id === this.question?.question_id) return;
    this.question = question;
    if (question === null) return;
    this.area.value = draftOf(question.question_id);
    setText(this.words, reveal(question.question));
    fill(this.problem);
  }

  focus() {
    this.area.focus();
  }

  /** Also without a connection, which Enter cannot show as a button does: the request is repeated, and if it fails, says so. */
  async #send(text) {
    if (this.isBusy || (text !== null && !text.trim())) return;
    this.isBusy = true;
    this.go.disabled = this.skip.disabled = true;
    const { question } = this;
    const problem = await this.answer(question, text);
    this.isBusy = false;
    this.go.disabled = this.skip.disabled = false;
    if (problem) fill(this.problem, icon("warn"), problem);
    else keepDraft(question.question_id, "");
  }
}
