// A dialog to choose from a list by typing: commands, sessions, models.

import { fill, h, setAttr } from "./dom.js";
import { openDialog } from "./dialog.js";
import { matchScore } from "./format.js";

const MAX_SHOWN = 200;

/** `choices`: [{title, detail, keys, value}] or a promise of them. Resolves to the chosen value, undefined for none. */
export const pick = ({ label, placeholder, choices, none = "No matches." }) =>
  openDialog({ label, kind: "picker", build: (close) => new Picker({ label, placeholder, none, close }).begin(choices) });

class Picker {
  constructor({ label, placeholder, none, close }) {
    Object.assign(this, { none, close });
    this.all = null;
    this.fitting = [];
    this.at = 0;
    this.list = h("div", { class: "options", role: "listbox", id: "picker-options", "aria-label": label });
    this.note = h("p", { class: "dim note", role: "status" }, "Loading…");
    this.input = h("input", {
      type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "picker-options", "aria-label": label,
      "aria-autocomplete": "list", placeholder, autocomplete: "off", spellcheck: "false", autofocus: true,
      oninput: () => this.#filter(),
      onkeydown: (event) => this.#key(event),
    });
  }

  begin(choices) {
    Promise.resolve(choices).then(
      (all) => {
        this.all = all;
        this.#filter();
      },
      (error) => {
        this.note.textContent = error.message;
      },
    );
    return [this.input, this.note, this.list];
  }

  #filter() {
    if (!this.all) return;
    const scored = this.all.map((choice) => [matchScore(this.input.value, `${choice.title} ${choice.detail ?? ""}`), choice]);
    const sorted = this.input.value.trim() ? scored.toSorted((one, other) => other[0] - one[0]) : scored;
    this.fitting = sorted.filter(([score]) => score > 0).slice(0, MAX_SHOWN).map(([, choice]) => choice);
    this.at = 0;
    this.note.hidden = this.fitting.length > 0;
    this.note.textContent = this.none;
    fill(this.list, ...this.fitting.map((choice, index) => this.#option(choice, index)));
    this.#mark();
  }

  #option({ title, detail, keys }, index) {
    return h(
      "div",
      { class: "option", role: "option", id: `option-${index}`, onclick: () => this.#choose(index) },
      h("span", { class: "option-title" }, title),
      detail && h("span", { class: "option-detail" }, detail),
      keys && h("kbd", {}, keys),
    );
  }

  #key(event) {
    const last = this.fitting.length - 1;
    const to = { ArrowDown: Math.min(last, this.at + 1), ArrowUp: Math.max(0, this.at - 1) }[event.key];
    if (event.key === "Enter") this.#choose(this.at);
    else if (to === undefined) return;
    else this.at = to;
    event.preventDefault();
    this.#mark();
  }

  #mark() {
    [...this.list.children].forEach((option, index) => setAttr(option, "aria-selected", index === this.at));
    setAttr(this.input, "aria-activedescendant", this.fitting.length ? `option-${this.at}` : null);
    this.list.children[this.at]?.scrollIntoView({ block: "nearest" });
  }

  #choose(index) {
    const choice = this.fitting[index];
    if (choice) this.close(choice.value);
  }
}
