// The contract's form: what an agent is to achieve, and what it may use.

import { h } from "./dom.js";
import { localStore } from "./local-storage.js";

const DEFAULTS = {
  text: "", accept: "", maxTurns: 50, maxMinutes: 60, maxTokens: null, maxCost: null, smallModel: false, worktree: false,
};

const NUMBERS = [
  ["maxTurns", "Turns", { min: 1, step: 1 }, "of work"],
  ["maxMinutes", "Minutes", { min: 0.1, step: "any" }, "at work"],
  ["maxTokens", "Tokens", { min: 1, step: 1 }, "empty: no limit"],
  ["maxCost", "US dollars", { min: 0.0001, step: "any" }, "empty: no limit"],
];

const SWITCHES = [
  ["smallModel", "Judge with the small model", "It gives the verdicts, where one is set."],
  ["worktree", "A git worktree of its own", "The agent works on a new branch, in a folder of its own."],
];

export class ContractForm {
  /** `start(contract)` begins; the draft is kept for `tab`. */
  constructor({ tab, contract, start, cancel }) {
    this.tab = tab;
    const values = { ...DEFAULTS, ...contract, ...localStore.get(`form:${tab}`) };
    this.text = h("textarea", {
      id: `contract-${tab}`, class: "contract-text", rows: "6", required: true, value: values.text, dir: "auto",
      placeholder: "What is to be achieved, and how to tell that it is.",
    });
    this.accept = h("input", { type: "text", value: values.accept ?? "", placeholder: "pytest -q", spellcheck: "false", class: "mono" });
    this.numbers = NUMBERS.map(([name, , limits]) => [name, h("input", { type: "number", ...limits, value: values[name] ?? "" })]);
    this.switches = SWITCHES.map(([name]) => [name, h("input", { type: "checkbox", checked: values[name] })]);
    this.go = h("button", { type: "submit", class: "primary", "aria-keyshortcuts": "Control+Enter" }, "Start");
    this.el = h(
      "form",
      {
        class: "contract-form",
        onsubmit: (event) => {
          event.preventDefault();
          localStore.set(`form:${tab}`, null);
          start(this.value());
        },
        oninput: () => localStore.set(`form:${tab}`, this.value()),
        onkeydown: (event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.el.requestSubmit(this.go);
        },
      },
      h("label", { class: "big-label", for: this.text.id }, "Contract"),
      this.text,
      h("div", { class: "row" }, this.go, cancel && h("button", { type: "button", onclick: cancel }, "Cancel"),
        h("span", { class: "dim" }, "Ctrl+Enter starts")),
      h("fieldset", {},
        h("legend", {}, "Acceptance and limits"),
        field("Acceptance command", this.accept,
          "Newel runs it itself; the contract counts as fulfilled only if it succeeds."),
        h("div", { class: "numbers" },
          ...NUMBERS.map(([, label, , about], index) => field(label, this.numbers[index][1], about))),
        ...SWITCHES.map(([, label, about], index) => field(label, this.switches[index][1], about, "switch"))),
    );
  }

  focus() {
    this.text.focus();
  }

  value() {
    const number = (input) => (input.value === "" ? undefined : Number(input.value));
    return {
      text: this.text.value.trim(),
      ...(this.accept.value.trim() && { accept: this.accept.value.trim() }),
      ...Object.fromEntries(this.numbers.map(([name, input]) => [name, number(input)]).filter(([, value]) => value !== undefined)),
      ...Object.fromEntries(this.switches.map(([name, input]) => [name, input.checked])),
    };
  }
}

let count = 0;

/** An input with its label, and words about it that a screen reader reads after. */
function field(label, input, about, kind = "field") {
  count += 1;
  input.setAttribute("aria-describedby", `about-${count}`);
  return h("div", { class: kind },
    h("label", {}, h("span", {}, label), input), h("span", { class: "dim", id: `about-${count}` }, about));
}

/** The limits of a contract, in words. */
export function limitsOf(contract) {
  const { accept, maxTurns, maxMinutes, maxTokens, maxCost, smallModel, worktree } = { ...DEFAULTS, ...contract };
  return [
    `${maxTurns} turns`,
    `${maxMinutes} minutes`,
    maxTokens && `${maxTokens.toLocaleString("en")} tokens`,
    maxCost && `$${maxCost}`,
    accept && `accepted by: ${accept}`,
    smallModel && "judged by the small model",
    worktree && "own worktree",
  ].filter(Boolean).join(" · ");
}
