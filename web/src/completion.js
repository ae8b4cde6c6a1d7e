// The list of completions above the message box: files after "@", commands and prompt templates after "/".

import { fill, h, setAttr } from "./dom.js";
import { matchScore, plain, revealPath } from "./format.js";

const MAX_FILES = 8; // of the best; all commands are shown, as their list is also how one learns of them
const PATIENCE_MS = 1_000; // for the list of what was typed, before a key means the text as it stands
const MENTION = /(?:^|[\s([{<'"`])(@(?:"(?<quoted>[^"\n]*)|(?<bare>[^\s"'`@]*)))$/;
const COMMAND = /^\/(?<name>[\w.:-]*)$/;

/** What is completed before the cursor: {kind: "file" | "command", part, start}; null for nothing. */
export function completedPart(before) {
  const command = COMMAND.exec(before);
  if (command) return { kind: "command", part: command.groups.name, start: 0 };
  const mention = MENTION.exec(before);
  return mention && { kind: "file", part: mention.groups.quoted ?? mention.groups.bare ?? "", start: before.length - mention[1].length };
}

/** Whether a path names its place itself, which may be outside the project: `~/`, `/`, `./` or `../` begin it. */
export const isPlace = (part) => /^(?:(?:~|\.{1,2})?\/|~$)/.test(part);

/** How a message names a path. */
export const mentionOf = (path) => (/[\s'`@]/.test(path) ? `@"${path}"` : `@${path}`);

/** The paths that may be mentioned, with the folders of `files` that `part` names, those first. */
export function withFolders(files, part) {
  const wanted = part.toLowerCase();
  const folders = new Set();
  for (const path of files) {
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      const folder = path.slice(0, end + 1);
      if (folder.toLowerCase().includes(wanted) && folder.slice(0, -1).toLowerCase().split("/").at(-1).startsWith(wanted.split("/").at(-1))) folders.add(folder);
    }
  }
  const named = [...folders].sort((one, other) => one.length - other.length || (one < other ? -1 : 1)).slice(0, 3);
  return [...named, ...files].filter((path) => !path.includes('"'));
}

/** The commands and templates that a name may become, the best first. */
export function matchCommands(entries, part) {
  const scored = entries.map((entry) => [entry.name.startsWith(part) ? 2_000 : matchScore(part, entry.name), entry]);
  return scored.filter(([score]) => score > 0).sort((one, other) => other[0] - one[0]).map(([, entry]) => entry);
}

export class Completion {
  /**
   * `area` is the message box. `files(part)` resolves to paths of the project, `paths(part)` to those in a folder, `commands()` to [{name, detail, takesArguments, run}]; `changed()` is
   * called when the text was completed.
   */
  constructor({ area, files, paths, commands, changed }) {
    Object.assign(this, { area, files, paths, commands, changed });
    this.choices = [];
    this.at = 0;
    this.asked = 0;
    this.pending = null; // resolves when the list is that of the text
    this.id = `completion-${Math.random().toString(36).slice(2)}`;
    this.el = h("div", {
      class: "completion", role: "listbox", tabindex: "0", id: this.id, "aria-label": "Completions", hidden: true,
      onpointerdown: (event) => event.preventDefault(), // the box keeps the focus
    });
    area.addEventListener("blur", () => this.close());
    area.addEventListener("click", () => this.update());
  }

  get isOpen() {
    return !this.el.hidden;
  }

  /** Complete what stands before the cursor now. */
  update() {
    const { selectionStart: cursor, selectionEnd, value } = this.area;
    const found = cursor === selectionEnd ? completedPart(value.slice(0, cursor)) : null;
    if (!found) return this.close();
    this.asked += 1;
    this.pending = this.#list(found, this.asked);
  }

  async #list(found, number) {
    const isFile = found.kind === "file";
    const choices = await (isFile ? this.#filesFor(found.part) : this.#commandsFor(found.part)).catch(() => []);
    if (number !== this.asked) return;
    Object.assign(this, { found, choices: isFile ? choices.slice(0, MAX_FILES) : choices, at: 0, pending: null });
    this.#show();
  }

  close() {
    this.asked += 1;
    this.pending = null;
    this.choices = [];
    this.#show();
  }

  /** Handle a key of the message box; returns whether it was meant for the list. */
  key(event) {
    if (!this.isOpen) return false;
    if (this.pending && ((event.key === "Enter" && !event.shiftKey && !event.altKey) || event.key === "Tab")) {
      event.preventDefault();
      this.#repeat(event.key);
      return true;
    }
    const count = this.choices.length;
    if (event.key === "ArrowDown") this.at = (this.at + 1) % count;
    else if (event.key === "ArrowUp") this.at = (this.at + count - 1) % count;
    else if (event.key === "Enter" && (event.shiftKey || this.#isTyped(this.choices[this.at]))) return false;
    else if (event.key === "Enter" || event.key === "Tab") this.#choose(this.at);
    else if (event.key === "Escape") {
      event.stopPropagation();
      this.close();
    } else return false;
    event.preventDefault();
    if (this.isOpen) this.#mark();
    return true;
  }

  /** Press a key again once the list is that of the text; the one that is shown is of what stood there before. */
  async #repeat(key) {
    const { value } = this.area;
    await Promise.race([this.pending, new Promise((done) => setTimeout(done, PATIENCE_MS))]);
    if (this.area.value !== value) return; // the user has typed on
    if (this.pending) this.close();
    this.area.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  }

  /** Whether a choice is what stands there already. */
  #isTyped({ text, run }) {
    return !run && this.area.value.slice(this.found.start, this.area.selectionStart) === text.trimEnd();
  }

  /** Files of the project; or entries of the folder that `part` names: outside of the project, or where git ignores them. */
  #filesFor = async (part) => {
    const found = isPlace(part) ? [] : withFolders(await this.files(part), part);
    const names = found.length > 0 || !/^~$|\//.test(part) ? found : await this.paths(part);
    return names.map((path) => ({ title: revealPath(path), text: `${mentionOf(path)}${path.endsWith("/") ? "" : " "}` }));
  };

  #commandsFor = async (part) =>
    matchCommands(await this.commands(), part).map(({ name, detail, takesArguments, run }) =>
      ({ title: `/${name}`, detail: plain(detail), text: run ? "" : `/${name}${takesArguments ? " " : ""}`, run }));

  #show() {
    this.el.hidden = this.choices.length === 0;
    setAttr(this.area, "aria-controls", this.isOpen ? this.id : null);
    fill(this.el, ...this.choices.map(({ title, detail }, index) =>
      h("div", {
        class: "option", role: "option", id: `${this.id}-${index}`,
        onclick: () => this.#choose(index),
      }, h("span", { class: "option-title" }, title), detail && h("span", { class: "option-detail" }, detail))));
    this.#mark();
  }

  #mark() {
    [...this.el.children].forEach((option, index) => setAttr(option, "aria-selected", index === this.at));
    this.el.children[this.at]?.scrollIntoView({ block: "nearest" });
    setAttr(this.area, "aria-activedescendant", this.isOpen ? `${this.id}-${this.at}` : null);
  }

  #choose(index) {
    const { text, run } = this.choices[index];
    const { value, selectionStart: cursor } = this.area;
    const before = value.slice(0, this.found.start) + text;
    this.area.value = before + value.slice(cursor);
    this.area.setSelectionRange(before.length, before.length);
    this.close();
    this.changed();
    if (run) run();
    else this.update();
  }
}
