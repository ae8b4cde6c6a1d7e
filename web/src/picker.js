// A dialog to choose from a list by typing: commands, sessions, models.

import { fill, h, setAttr } from "./dom.js";
import { openDialog } from "./dialog.js";
import { matchScore } from "./format.js";

const MAX_SHOWN = 200;

const SEARCH_DELAY = 150; // ms after the last key before the server is asked

/**
 * `choices`: [{title, detail, keys, value, isCurrent}] or a promise of them; or instead `search(query)`, which resolves to those that match.
 * `none(query)` says that there are none. Resolves to the chosen value, undefined for none.
 */
export const pick = ({ label, placeholder, choices, search = null, none = () => "No matches." }) =>
  openDialog({ label, kind: "picker", build: (close) => new Picker({ label, placeholder, none, search, close }).begin(choices) });

class Picker {
  constructor({ label, placeholder, none, search, close }) {
    Object.assign(this, { none, search, close });
    this.timer = null; // of a search that is due
    this.asked = null; // the query that the server searches for
    this.all = null;
    this.fitting = [];
    this.at = 0;
    this.list = h("div", { class: "options", role: "listbox", id: "picker-options", "aria-label": label });
    this.note = h("p", { class: "dim note", role: "status" }, "Loading…");
    this.input = h("input", {
      type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "picker-options", "aria-label": label,
      "aria-autocomplete": "list", placeholder, autocomplete: "off", spellcheck: "false", autofocus: true,
      oninput: () => (this.search ? this.#searchSoon() : this.#filter()),
      onkeydown: (event) => this.#key(event),
    });
  }

  begin(choices) {
    if (this.search) this.#search();
    else Promise.resolve(choices).then(
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

  #searchSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#search(), SEARCH_DELAY);
  }

  async #search() {
    clearTimeout(this.timer);
    this.timer = null;
    const query = this.input.value.trim();
    this.asked = query;
    const found = await this.search(query).catch((error) => error);
    if (this.asked !== query) return; // typed on meanwhile
    this.asked = null;
    if (Array.isArray(found)) return this.#show(found);
    this.#show([]);
    this.note.textContent = found.message;
  }

  /** Whether the list is of another query than the one that is typed. */
  get #isSearching() {
    return this.timer !== null || this.asked !== null;
  }

  #filter() {
    if (!this.all) return;
    const scored = this.all.map((choice) => [matchScore(this.input.value, `${choice.title} ${choice.detail ?? ""}`), choice]);
    const sorted = this.input.value.trim() ? scored.toSorted((one, other) => other[0] - one[0]) : scored;
    this.#show(sorted.filter(([score]) => score > 0).slice(0, MAX_SHOWN).map(([, choice]) => choice));
  }

  #show(fitting) {
    this.fitting = fitting;
    const current = this.input.value.trim() ? -1 : fitting.findIndex(({ isCurrent }) => isCurrent); // Enter changes nothing then
    this.at = Math.max(0, current);
    this.note.hidden = this.fitting.length > 0;
    this.note.textContent = this.none(this.input.value.trim());
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
    if (event.key === "Enter") this.#enter();
    else if (to === undefined) return;
    else this.at = to;
    event.preventDefault();
    this.#mark();
  }

  /** Choose the marked entry; during a search only once its result is shown. */
  async #enter() {
    if (this.timer !== null) await this.#search();
    if (!this.#isSearching) this.#choose(this.at);
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
