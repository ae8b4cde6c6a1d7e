// The agent modes: which model works.

import { h } from "./dom.js";

export const AGENT_MODES = [
  ["remote", "the configured model"],
  ["local", "a model on this machine"],
  ["hybrid_auto", "first the local model"],
];

/** A choice of the mode; its value is empty for the configured one. */
export const modeSelect = (label, value = "") =>
  h("select", { "aria-label": label, title: label },
    h("option", { value: "", selected: !value }, "configured mode"),
    ...AGENT_MODES.map(([mode, about]) => h("option", { value: mode, selected: mode === value }, `${mode}: ${about}`)));
