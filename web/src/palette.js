// The command palette and the keyboard shortcuts.

import { h } from "./dom.js";
import { dialogHead, openDialog } from "./dialog.js";
import { pick } from "./picker.js";

const KEYS = [
  ["Ctrl+K", "Commands"],
  ["?", "Keyboard shortcuts"],
  ["Alt+N", "New chat"],
  ["Alt+G", "New agent"],
  ["Alt+O", "Open a conversation"],
  ["Alt+T", "MCP tools"],
  ["Alt+F", "Files"],
  ["Alt+P", "Find a file"],
  ["Alt+V", "Review"],
  ["Alt+1 … Alt+9", "Go to tab"],
  ["J, K", "Review: next, previous undecided hunk, in any file (with Alt while editing one)"],
  ["A, R, C", "Review: accept, reject, revise the hunk (with Alt while editing a file)"],
  ["Alt+W", "Close tab"],
  ["Delete, F2 on a tab", "Close or rename the tab"],
  ["/", "Focus the message box"],
  ["Enter", "Send, or queue while a run is in progress"],
  ["Shift+Enter", "New line"],
  ["Up", "In the empty message box: edit your last message, also a queued one"],
  ["@, @~/, @/", "In the message box: attach a file of the project, or from elsewhere"],
  ["Ctrl+Enter", "Start the agent or resend an edited message"],
  ["Escape", "Leave a box, close the open panel; in the conversation: stop the run and hold queued messages, press again to stop it now"],
];

export const showKeys = () =>
  openDialog({
    label: "Keyboard",
    kind: "keys",
    build: (close) => [
      dialogHead("Keyboard", close),
      h("dl", { tabindex: "0" }, ...KEYS.map(([keys, words]) => h("div", {}, h("dt", {}, h("kbd", {}, keys)), h("dd", {}, words)))),
    ],
  });

/** Let the user choose one of `commands`, [{title, detail, keys, run}], and run it. */
export async function openPalette(commands) {
  const chosen = await pick({
    label: "Commands",
    placeholder: "Type a command",
    choices: commands.map(({ title, detail, keys, run }) => ({ title, detail, keys, value: run })),
  });
  chosen?.();
}

/** The letter on a key; where Option makes another character of it, as on a Mac, that of its place. */
const letterOf = ({ key, code }) => (/^[a-z]$/i.test(key) ? key : code.replace("Key", "")).toLowerCase();

const isTyping = (element) => element?.matches?.("input, textarea, select, [contenteditable]") ?? false;

/** Bind the keys; `commands` as in commands.js. */
export function bindKeyboard(commands) {
  // None of the letters that a file has with Alt: review/editor-keys.js.
  const alt = { n: commands.newChat, g: commands.newAgent, o: commands.openSession, t: commands.toggleTools, w: commands.closeActive, f: commands.toggleFiles, v: commands.toggleReview };
  document.addEventListener("keydown", (event) => {
    const hasDialog = document.querySelector("dialog[open]") !== null;
    const command = commandOf(event, hasDialog);
    if (!command) return;
    event.preventDefault();
    command();
  });

  function commandOf(event, hasDialog) {
    const { key, code, altKey } = event;
    const chord = event.ctrlKey || event.metaKey;
    if (chord && !altKey && key.toLowerCase() === "k") return hasDialog ? null : commands.openPalette;
    if (hasDialog || chord) return null;
    if (altKey && /^Digit[1-9]$/.test(code)) return () => commands.showNth(Number(code.at(-1)) - 1);
    if (altKey) return alt[letterOf(event)] ?? null;
    if (key === "Escape") return commands.escape;
    if (isTyping(event.target)) return null;
    return { "?": commands.showKeys, "/": commands.focusPanel }[key] ?? null;
  }
}
