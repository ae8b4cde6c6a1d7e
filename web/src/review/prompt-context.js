// The context of the next instruction: selections and files. They stay until removed.

import { fill, h, iconButton, setAttr } from "../dom.js";
import { newId, revealPath } from "../format.js";
import { localStore } from "../local-storage.js";
import { idOf, parsePlace } from "./routes.js";

const KEY = "review-rows"; // {session, rows}
const MAX_ROWS = 100;
const MAX_ROW_BYTES = 256 << 10; // bytes of one row's text

export const sizeOf = (text) => new TextEncoder().encode(text).length;

/** A row as text: "notes.md:5–7". */
export const formatContextRow = ({ file_path: path, start_line: first, end_line: last }) =>
  revealPath(path ?? "") + (first ? `:${first}${last > first ? `–${last}` : ""}` : "");

/** Add a row; it replaces one of the same place. */
export function withRow(rows, row) {
  const isSame = (each) => formatContextRow(each) === formatContextRow(row);
  const { isPinned } = rows.find(isSame) ?? {};
  return [...rows.filter((each) => !isSame(each)), isPinned ? { ...row, isPinned } : row].slice(-MAX_ROWS);
}

/** A row as the server takes it. */
export const toRequest = ({ isPinned, ...row }) => row;

export class PromptContext {
  constructor({ api, selection, announce }) {
    Object.assign(this, { api, selection, announce });
    this.rows = [];
    this.refusal = ""; // why nothing was added, until something is
    this.session = null;
    this.list = h("ul", { class: "context-list", "aria-label": "Context" });
    this.note = h("p", { class: "dim" });
    this.el = h("section", { class: "context", "aria-label": "Context for the next instruction" },
      h("div", { class: "section-head" }, h("span", {}, "Context"),
        h("span", { class: "row" },
          h("button", { type: "button", onclick: () => this.#addSelection() }, "Add selection"),
          h("button", { type: "button", onclick: () => this.#addFile() }, "Add file"))),
      this.list, this.note);
    addEventListener("storage", () => localStore.get(KEY)?.session === this.session && this.#load([])); // another window changed them
    this.#show();
  }

  /** Show the rows of a session, or null if there is none yet. */
  update(session) {
    const id = session?.id ?? "";
    if (id === this.session) return;
    const isBegun = this.session === "" && this.rows.length > 0; // the session was started with these rows
    this.session = id;
    if (isBegun) this.#set(this.rows);
    else this.#load(session?.context_rows ?? []);
  }

  #load(others) {
    const known = localStore.get(KEY);
    const pinned = (known?.rows ?? []).filter((row) => row.isPinned);
    this.rows = known?.session === this.session ? known.rows : pinned.reduce(withRow, others);
    this.#show();
  }

  /** The rows as the server takes them. Files are sent with their current text, unless it is too long. */
  async toSend() {
    return Promise.all(this.rows.map(async (row) => {
      if (row.kind !== "file") return toRequest(row);
      const view = await this.api.file(row.file_path).catch(() => null); // the agent gets its name at least
      const content = view?.content ?? "";
      return { ...toRequest(row), content: sizeOf(content) <= MAX_ROW_BYTES ? content : "" };
    }));
  }

  #addSelection() {
    const selected = this.selection();
    if (!selected) return this.#refuse("Select lines in a file first.");
    const { path, startLine, endLine, text } = selected;
    if (sizeOf(text) > MAX_ROW_BYTES) return this.#refuse("The selection is larger than 256 kB. Select less, or add the file.");
    return this.#add({ id: `ctx_${newId()}`, kind: "selection", file_path: path, start_line: startLine, end_line: endLine, content: text });
  }

  #addFile() {
    const path = parsePlace(idOf(location.hash) ?? "")?.path;
    if (!path) return this.#refuse("Open a file first.");
    return this.#add({ id: `ctx_${newId()}`, kind: "file", file_path: path, content: "" });
  }

  #add(row) {
    this.#set(withRow(this.rows, row));
    this.announce(`Added ${formatContextRow(row)} as context.`);
  }

  #refuse(message) {
    this.refusal = message;
    this.#show();
    this.announce(message);
  }

  #set(rows) {
    this.rows = rows;
    this.refusal = "";
    localStore.set(KEY, { session: this.session, rows });
    this.#show();
  }

  #show() {
    fill(this.note, this.refusal || (this.rows.length === 0 && "Add files or selected lines as context for the agent."));
    fill(this.list, ...this.rows.map((row) => this.#row(row)));
  }

  #row(row) {
    const words = formatContextRow(row);
    const change = (rows, focus) => {
      this.#set(rows);
      (this.list.querySelector(focus) ?? this.el.querySelector("button")).focus();
    };
    const pin = h("button", {
      type: "button", class: "quiet", id: `pin-${row.id}`, "aria-label": `${row.isPinned ? "Pinned" : "Pin"} ${words}`, "aria-pressed": String(Boolean(row.isPinned)),
      title: "Pinned context is kept in new sessions",
      onclick: () => change(this.rows.map((each) => (each === row ? { ...row, isPinned: !row.isPinned } : each)), `#${CSS.escape(`pin-${row.id}`)}`),
    }, row.isPinned ? "Pinned" : "Pin");
    const close = iconButton("close", `Remove ${words}`, () => change(this.rows.filter((each) => each !== row), ".icon-button"));
    const item = h("li", {}, h("span", { class: "context-words mono", title: words }, words), pin, close);
    setAttr(item, "data-kind", row.kind);
    return item;
  }
}
