// The keys of a file: with Alt inside the text, without it elsewhere in the tab.

const COMMANDS = {
  j: (editor) => editor.move(1),
  k: (editor) => editor.move(-1),
  a: (editor) => editor.decideCurrent("accept"),
  r: (editor) => editor.decideCurrent("reject"),
  c: (editor) => editor.reviseCurrent(),
};

/** Key bindings of the text. They stop here, as the page uses some of them, too. */
export const editorKeys = (editor) =>
  Object.entries(COMMANDS).map(([key, run]) => ({
    key: `Alt-${key}`, run: () => (run(editor), true), stopPropagation: true, preventDefault: true,
  }));

/** "undo", "redo" or null. A capital does not imply Shift: Caps Lock produces one, too. */
export function stepOf({ key, ctrlKey, metaKey, altKey, shiftKey }) {
  const name = key.toLowerCase();
  if (!(ctrlKey || metaKey) || altKey || (name !== "z" && name !== "y")) return null;
  return name === "y" || shiftKey ? "redo" : "undo";
}

const isTyping = (element) => element.closest("input, textarea, select, [contenteditable='true']") !== null;

/** Handle a key of the tab while it is shown. */
export function pageKey(event, editor) {
  const { key, target } = event;
  if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
  const isChord = (event.ctrlKey || event.metaKey) && !event.altKey;
  const name = key.toLowerCase();
  const isHere = target === document.body || editor.el.contains(target);
  if (isChord && name === "s") editor.save();
  else if (!isHere || isTyping(target)) return;
  else if (stepOf(event)) editor.step(stepOf(event));
  else if (!isChord && !event.altKey && Object.hasOwn(COMMANDS, name)) COMMANDS[name](editor);
  else return;
  event.preventDefault();
}
