// The project's folders and files. Only unfolded folders are read, and only visible rows are in the page.

import { fill, h, icon, setAttr } from "../dom.js";
import { formatNumber, pluralize, revealPath } from "../format.js";
import { localStore } from "../local-storage.js";
import { findFile } from "./quick-open.js";
import { foldersOf, join, rowsOf, step, findByPrefix, indexPending } from "./tree-rows.js";
import { VirtualList } from "./virtual-list.js";

const ROW = 28; // px, until it is measured
const TYPING_TIMEOUT = 700; // ms within which typed letters form one prefix
const MIN_READ_INTERVAL = 1_000; // ms between reads of what another program may have changed
const MAX_OPEN = 500; // unfolded folders that are remembered

export class FileTree {
  constructor({ api, review, openFile, open, announce }) {
    Object.assign(this, { api, review, openFile, announce });
    this.folders = new Map(); // by path: the answer of the server, or {problem}
    this.reading = new Set();
    this.stale = new Set(); // folders that wait to be read again
    const last = localStore.get("tree");
    this.open = new Set(last?.open ?? []);
    this.at = last?.at ?? null;
    this.rows = [];
    this.word = { text: "", until: 0 };
    this.waits = indexPending(null);
    this.window = new VirtualList({
      draw: (row) => this.#row(row),
      dress: (el, row) => this.#dress(el, row),
      props: { role: "tree", "aria-label": "Project files", onkeydown: (event) => this.#key(event), onclick: (event) => this.#click(event) },
    });
    const find = () => findFile({ api, openFile: (path) => this.openFile(path) });
    const button = (words, title, onclick, props = {}) => h("button", { type: "button", class: "quiet", title, onclick, ...props }, words);
    this.el = h("div", { class: "tree" },
      h("div", { class: "tree-head" },
        button("Find", "Find a file (Alt+P)", find, { "aria-keyshortcuts": "Alt+P" }),
        button("Pending", "All pending changes", () => open("pending")),
        button("Checkpoints", "Checkpoints", () => open("checkpoints"))),
      this.window.el);
    document.addEventListener("keydown", (event) => {
      const isFind = event.altKey && !event.ctrlKey && !event.metaKey && event.code === "KeyP";
      if (!isFind || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      find();
    });
    review.subscribe((state) => this.#changed(state));
    addEventListener("focus", () => this.again());
  }

  /** Show the tree and read missing folders; called when the tree becomes visible. */
  update() {
    this.#changed(this.review.get());
    for (const folder of ["", ...this.open]) if (!this.folders.has(folder) && this.#isInSight(folder)) this.#read(folder);
    this.#draw();
  }

  focus() {
    const first = this.rows.find((row) => row.path === this.at && row.name) ?? this.rows.find((row) => row.name);
    if (first) this.#go(first.path);
    else this.wantsFocus = true;
  }

  #isInSight = (folder) => foldersOf(join(folder, "x")).every((each) => this.open.has(each));

  // -- what is known --------------------------------------------------------------------------------

  #changed({ pending }) {
    if (pending === this.pending) return;
    this.pending = pending;
    this.waits = indexPending(pending);
    // The pending files and their bases change with a save, and with changes on disk.
    const disk = JSON.stringify((pending ?? []).map((file) => [file.file_path, file.base_file_hash]));
    const isOther = this.disk !== undefined && this.disk !== disk;
    this.disk = disk;
    if (isOther) this.again();
    this.#draw();
  }

  /** The folders whose entries are shown. */
  shownFolders = () => (this.el.offsetParent === null ? [] : ["", ...this.open].filter(this.#isInSight));

  /** Read folders again, by default all that are shown; soon, if that has just been done. */
  again(folders = this.shownFolders()) {
    for (const folder of folders) this.stale.add(folder);
    if (this.timer) return;
    const shown = this.shownFolders().filter((folder) => this.stale.has(folder));
    this.stale.clear();
    if (shown.length === 0) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.again([]);
    }, MIN_READ_INTERVAL);
    for (const folder of shown) this.#read(folder);
  }

  async #read(folder) {
    if (this.reading.has(folder)) return;
    this.reading.add(folder);
    try {
      this.folders.set(folder, await this.api.tree(folder));
    } catch (error) {
      const isGone = error.status > 0 && error.status < 500;
      if (isGone || !this.folders.has(folder)) this.folders.set(folder, { entries: [], problem: error.message });
    } finally {
      this.reading.delete(folder);
    }
    this.#draw();
  }

  #keep() {
    localStore.set("tree", { open: [...this.open].slice(-MAX_OPEN), at: this.at });
  }

  // -- what is shown --------------------------------------------------------------------------------

  #draw() {
    this.rows = rowsOf(this);
    this.named = this.rows.filter((row) => row.name);
    if (!this.named.some((row) => row.path === this.at)) this.at = this.named[0]?.path ?? null;
    setAttr(this.window.list, "role", this.named.length ? "tree" : "group");
    this.window.set(this.rows.map((row) => {
      const marks = this.#marks(row);
      const { name, kind, level, isOpen, place, size, words, ignored, isProposed } = row;
      const stamp = JSON.stringify([name, kind, level, isOpen, place, size, words, ignored, isProposed, marks]);
      return { ...row, marks, height: ROW, stamp };
    }));
    if (this.wantsFocus && this.named.length) {
      this.wantsFocus = false;
      this.focus();
    }
  }

  /** The pending changes of a row's file or folder. */
  #marks({ path, kind }) {
    if (kind === "directory") return { below: this.waits.folders.get(path) ?? 0 };
    const file = this.waits.files.get(path);
    return { pending: file?.pending ?? 0, unsaved: file?.unsaved ?? 0, conflicts: file?.conflicts ?? 0 };
  }

  #row({ key, path, name, kind, level, place, size, isOpen, isProposed, ignored, marks, words }) {
    const depth = level - 1;
    if (!name) return indented(h("div", { class: `tree-row tree-${kind} dim`, role: "none", "data-key": key }, words), depth);
    const isFolder = kind === "directory";
    const row = h("div", {
      class: `tree-row${ignored ? " is-ignored" : ""}${isProposed ? " is-proposed" : ""}`, role: "treeitem", "data-key": key,
      "aria-level": level, "aria-posinset": place, "aria-setsize": size, "aria-expanded": isFolder ? String(isOpen) : null, title: revealPath(path),
    });
    fill(row,
      isFolder ? icon(isOpen ? "down" : "right") : h("span", { class: "tree-gap" }),
      h("span", { class: "tree-name" }, revealPath(name)),
      isProposed && h("span", { class: "dim tree-new" }, "new"),
      ignored && h("span", { class: "sr-only" }, ", ignored by git"),
      ...marksView(marks));
    return indented(row, depth);
  }

  /** Mark the row that the keys apply to. */
  #dress(el, { path, name }) {
    if (!name) return;
    setAttr(el, "aria-selected", path === this.at);
    setAttr(el, "tabindex", path === this.at ? "0" : "-1");
  }

  // -- the keyboard and the pointer -----------------------------------------------------------------

  #go(path) {
    this.at = path;
    this.#keep();
    this.#draw();
    this.window.reveal(path)?.focus({ preventScroll: true });
  }

  #click(event) {
    const key = event.target.closest("[data-key]")?.dataset.key;
    const row = this.rows.find((each) => each.key === key);
    if (row?.kind === "more") findFile({ api: this.api, openFile: (path) => this.openFile(path) });
    if (!row?.name) return;
    this.#go(row.path);
    this.#enter(row);
  }

  #enter(row) {
    if (row.kind === "directory") this.#fold(row.path, !row.isOpen);
    else this.openFile(row.path);
  }

  #fold(path, isOpen) {
    if (isOpen) this.open.add(path);
    else this.open.delete(path);
    if (isOpen) this.#read(path); // the previous listing is shown meanwhile
    this.#go(path);
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const row = this.named.find((each) => each.path === this.at);
    if (!row) return;
    const next = step(this.named, this.at, event.key);
    if (event.key === "Enter" || (event.key === " " && Date.now() >= this.word.until)) this.#enter(row);
    else if (next?.to) this.#go(next.to);
    else if (next?.open) this.#fold(next.open, true);
    else if (next?.close) this.#fold(next.close, false);
    else if (event.key.length === 1) this.#type(event.key);
    else return;
    event.preventDefault();
    event.stopPropagation(); // letters search here, they are no commands
  }

  #type(sign) {
    const now = Date.now();
    const text = (now < this.word.until ? this.word.text : "") + sign;
    this.word = { text, until: now + TYPING_TIMEOUT };
    const found = findByPrefix(this.named, this.at, text);
    if (found) this.#go(found);
  }
}

/** The content security policy forbids inline styles. */
function indented(row, depth) {
  row.style.setProperty("--depth", depth);
  return row;
}

function marksView({ below, pending, unsaved, conflicts }) {
  const mark = (kind, sign, words) => h("span", { class: `tree-mark ${kind}`, title: words }, sign, h("span", { class: "sr-only" }, `, ${words}`));
  return [
    below > 0 && mark("below", "", `${pluralize(below, "file")} below to review`),
    conflicts > 0 && mark("conflict", icon("warn"), pluralize(conflicts, "conflict")),
    pending > 0 && mark("waits", `${formatNumber(pending)}±`, `${pluralize(pending, "hunk")} to review`),
    pending === 0 && unsaved > 0 && mark("accepted", icon("check"), `${pluralize(unsaved, "hunk")} to save`),
  ];
}
