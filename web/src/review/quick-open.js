// Quick open: find a file by part of its name. The server searches, after a pause in typing.

import { fill, h, setAttr } from "../dom.js";
import { openDialog } from "../dialog.js";
import { revealPath } from "../format.js";

const SEARCH_DELAY = 100; // ms without a key before a search

/** Let the user choose a file, and open it. */
export async function findFile({ api, openFile }) {
  const path = await openDialog({
    label: "Find a file", kind: "picker", build: (close) => new Finder({ api, close }).begin(),
  });
  if (path) openFile(path);
}

class Finder {
  constructor({ api, close }) {
    Object.assign(this, { api, close });
    this.paths = [];
    this.at = 0;
    this.asked = 0;
    this.list = h("div", { class: "options", role: "listbox", id: "finder-options", "aria-label": "Files" });
    this.note = h("p", { class: "dim note", role: "status" }, "Type part of the file name.");
    this.input = h("input", {
      type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "finder-options", "aria-label": "Find a file",
      "aria-autocomplete": "list", placeholder: "Find a file", autocomplete: "off", spellcheck: "false", autofocus: true,
      oninput: () => this.#typed(),
      onkeydown: (event) => this.#key(event),
    });
  }

  begin() {
    return [this.input, this.note, this.list];
  }

  #typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#ask(this.input.value.trim()), SEARCH_DELAY);
  }

  async #ask(query) {
    const number = (this.asked += 1);
    let found = { files: [] };
    let words = "Type part of the file name.";
    try {
      if (query) {
        found = await this.api.find(query);
        words = "No matching files.";
      }
    } catch (error) {
      words = error.message;
    }
    if (number !== this.asked) return; // superseded by a newer search
    this.paths = found.files;
    this.at = 0;
    this.note.textContent = found.more ? "More files match. Keep typing to narrow the list." : words;
    this.note.hidden = this.paths.length > 0 && !found.more;
    fill(this.list, ...this.paths.map((path, index) => this.#option(path, index)));
    this.#mark();
  }

  #option(path, index) {
    const cut = path.lastIndexOf("/") + 1;
    return h("div", { class: "option", role: "option", id: `found-${index}`, title: revealPath(path), onclick: () => this.close(path) },
      h("span", { class: "option-title" }, revealPath(path.slice(cut))),
      h("span", { class: "option-detail" }, revealPath(path.slice(0, cut))));
  }

  #key(event) {
    const last = this.paths.length - 1;
    const to = { ArrowDown: Math.min(last, this.at + 1), ArrowUp: Math.max(0, this.at - 1) }[event.key];
    if (event.key === "Enter") this.paths[this.at] && this.close(this.paths[this.at]);
    else if (to === undefined) return;
    else this.at = to;
    event.preventDefault();
    this.#mark();
  }

  #mark() {
    [...this.list.children].forEach((option, index) => setAttr(option, "aria-selected", index === this.at));
    setAttr(this.input, "aria-activedescendant", this.paths.length ? `found-${this.at}` : null);
    this.list.children[this.at]?.scrollIntoView({ block: "nearest" });
  }
}
