// The question that an agent waits with: one at a time, for as long as it takes.

import { fill, h, icon, newId, say } from "../dom.js";
import { reveal } from "../format.js";
import { kept } from "../kept.js";

const DRAFT = "review-answer"; // {id, text}: what was typed stays over a reload

export class ClarifyCard {
  /** `answer(text)` sends an answer, null to skip; it resolves to words if that could not be done, else to "". */
  constructor({ answer }) {
    this.answer = answer;
    this.question = null;
    const [title, words] = [`asks-${newId()}`, `asked-${newId()}`];
    this.words = h("p", { class: "words", id: words });
    this.area = h("textarea", {
      rows: "2", "aria-label": "Your answer", dir: "auto",
      oninput: () => kept.set(DRAFT, { id: this.question?.question_id, text: this.area.value }),
      onkeydown: (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
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
    h("div", { class: "row" }, this.go, this.skip, h("span", { class: "dim" }, "Enter answers")),
    this.problem);
  }

  update({ question, isUp }) {
    this.el.hidden = question === null;
    for (const each of [this.go, this.skip]) each.disabled = !isUp || this.isBusy;
    if (question?.question_id === this.question?.question_id) return;
    this.question = question;
    if (question === null) return;
    const draft = kept.get(DRAFT);
    this.area.value = draft?.id === question.question_id ? draft.text : "";
    say(this.words, reveal(question.question));
    fill(this.problem);
  }

  focus() {
    this.area.focus();
  }

  async #send(text) {
    if (this.isBusy || this.go.disabled || (text !== null && !text.trim())) return;
    this.isBusy = true;
    this.go.disabled = this.skip.disabled = true;
    const problem = await this.answer(this.question, text);
    this.isBusy = false;
    this.go.disabled = this.skip.disabled = false;
    if (problem) fill(this.problem, icon("warn"), problem);
    else kept.set(DRAFT, null);
  }
}
