// The modes of a chat: which model works, which calls are asked about, how much the model thinks.

import { h } from "./dom.js";

export const AGENT_MODES = [
  ["remote", "the configured model"],
  ["local", "a model on this machine"],
  ["hybrid_auto", "first the local model"],
];

/** Those that a chat can switch between; "review" and "read-only" are chosen at the start. */
export const APPROVAL_MODES = [
  ["ask", "asks before each change"],
  ["auto", "edits and runs commands without asking"],
  ["plan", "changes nothing, and plans first"],
];

export const THINKING_LEVELS = [
  ["off", "answers at once"],
  ["minimal", "a few words"],
  ["low", "a little"],
  ["medium", "a while"],
  ["high", "as long as it takes"],
];

/** A choice of the mode; its value is empty for the configured one. */
export const modeSelect = (label, value = "") =>
  h("select", { "aria-label": label, title: label },
    h("option", { value: "", selected: !value }, "configured mode"),
    ...AGENT_MODES.map(([mode, about]) => h("option", { value: mode, selected: mode === value }, `${mode}: ${about}`)));
