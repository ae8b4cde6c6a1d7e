// The form of a contract: an agent's goal and its limits.

import { modeSelect } from "./agent-modes.js";
import { h } from "./dom.js";
import { reveal } from "./format.js";
import { localStore } from "./local-storage.js";

const DEFAULTS = {
  text: "", accept: "", maxTurns: 50, maxMinutes: 60, maxTokens: null, maxCost: null, smallModel: false, worktree: false,
};

const NUMBERS = [
  ["maxTurns", "Turns", { min: 1, step: 1 }, "maximum"],
  ["maxMinutes", "Minutes", { min: 0.1, step: "any" }, "maximum"],
  ["maxTokens", "Tokens", { min: 1, step: 1 }, "leave empty for no limit"],
  ["maxCost", "US dollars", { min: 0.0001, step: "any" }, "leave empty for no limit"],
];

const SWITCHES = [
  ["smallModel", "Use the small model as judge", "The small model, if configured, decides whether the contract is fulfilled."],
  ["worktree", "Separate git worktree", "The agent works in its own folder, on a new branch."],
];

export class ContractForm {
  /** `start(contract)` starts the agent; the draft is stored for `tab`. */
  constructor({ tab, contract, start, cancel }) {
    this.tab = tab;
    const values = { ...DEFAULTS, ...contract, ...localStore.get(`form:${tab}`) };
    this.text = h("textarea", {
      id: `contract-${tab}`, class: "contract-text", rows: "6", required: true, value: values.text, dir: "auto",
      placeholder: "Describe the goal, and how to verify it.",
    });
    this.accept = h("input", { type: "text", value: values.accept ?? "", placeholder: "pytest -q", spellcheck: "false", class: "mono" });
    this.numbers = NUMBERS.map(([name, , limits]) => [name, h("input", { type: "number", ...limits, value: values[name] ?? "" })]);
    this.switches = SWITCHES.map(([name]) => [name, h("input", { type: "checkbox", checked: values[name] })]);
    this.mode = modeSelect("Agent mode", values.agentMode);
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
        h("span", { class: "dim" }, "Ctrl+Enter to start")),
      h("fieldset", {},
        h("legend", {}, "Acceptance and limits"),
        field("Acceptance command", this.accept,
          "Newel runs this command. The contract is fulfilled only if it succeeds."),
        h("div", { class: "numbers" },
          ...NUMBERS.map(([, label, , about], index) => field(label, this.numbers[index][1], about))),
        field("Agent mode", this.mode, "Which model works. With local, nothing is sent to a model on another machine."),
        ...SWITCHES.map(([, label, about], index) => field(label, this.switches[index][1], about, "switch"))),
    );
  }

  focus() {
    this.text.focus();
  }

  /** Whether it can be changed and sent: what is typed while the agent starts would be lost. */
  enable(isEnabled) {
    for (const each of this.el.elements) each.disabled = !isEnabled;
  }

  value() {
    const number = (input) => (input.value === "" ? undefined : Number(input.value));
    return {
      text: this.text.value.trim(),
      ...(this.accept.value.trim() && { accept: this.accept.value.trim() }),
      ...Object.fromEntries(this.numbers.map(([name, input]) => [name, number(input)]).filter(([, value]) => value !== undefined)),
      ...(this.mode.value && { agentMode: this.mode.value }),
      ...Object.fromEntries(this.switches.map(([name, input]) => [name, input.checked])),
    };
  }
}

let count = 0;

/** An input with its label and a description, linked for screen readers. */
function field(label, input, about, kind = "field") {
  count += 1;
  input.setAttribute("aria-describedby", `about-${count}`);
  return h("div", { class: kind },
    h("label", {}, h("span", {}, label), input), h("span", { class: "dim", id: `about-${count}` }, about));
}

/** A contract and its limits, its text folded to the first line. */
export function contractHead(contract) {
  const text = reveal(contract.text);
  return [
    h("details", {}, h("summary", {}, h("span", { class: "dim" }, "Contract: "), text.split("\n")[0]), h("div", { class: "words" }, text)),
    h("div", { class: "dim limits" }, reveal(limitsOf(contract))),
  ];
}

/** A contract's limits: "50 turns · 30 minutes". */
function limitsOf(contract) {
  const { accept, maxTurns, maxMinutes, maxTokens, maxCost, smallModel, worktree, agentMode } = { ...DEFAULTS, ...contract };
  return [
    `${maxTurns} turns`,
    `${maxMinutes} minutes`,
    maxTokens && `${maxTokens.toLocaleString("en")} tokens`,
    maxCost && `$${maxCost}`,
    accept && `acceptance: ${accept}`,
    smallModel && "small model as judge",
    worktree && "own worktree",
    agentMode,
  ].filter(Boolean).join(" · ");
}
