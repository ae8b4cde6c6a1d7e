// Dialogs that undo runs in the files, or go back in a conversation. Each lists what would change before it does anything.

import { dialogHead, openDialog } from "./dialog.js";
import { fill, h, isFocusLost, setAttr, setText } from "./dom.js";
import { formatNumber, pluralize, reveal, revealPath } from "./format.js";
import { rowsOf, totalsOf } from "./review/changes.js";
import { patchView } from "./review/patch-view.js";
import { conflictsView, filesView } from "./review/rollback.js";

const KEPT = "Your own later edits stay.";
const INITIALLY_OPEN = 3; // files of a run whose changes are unfolded at first
const MAX_NAMED = 5; // files that a message names
const PROGRESS_INTERVAL = 500; // ms until the progress is shown first, and between two looks at it
const WAYS = [["both", "The conversation and the files"], ["talk", "The conversation only"], ["files", "The files only"]];

/** Undo a run, in the files or, before it is saved, in the review; resolves when the dialog is closed. */
export const openUndo = ({ api, change, announce }) => {
  const { pending, accepted, applied } = totalsOf(change.files);
  const isInReview = applied === 0 && pending + accepted > 0;
  return openPlan({
    title: "Undo this run", yes: "Undo", doing: "Undoing", api, announce, done: "undone", about: reveal(change.title),
    words: isInReview ? "Your files stay as they are: what this run changed is still in review. You can redo it."
      : `The files will be as if this run had not changed them. ${KEPT} You can redo it.`,
    place: isInReview ? " in the review" : "",
    ask: (request) => api.undoRun(change.checkpoint_id, request),
  });
};

/** Redo a run that was undone. */
export const openRedo = ({ api, change, announce }) =>
  openPlan({
    title: "Redo this run", yes: "Redo", doing: "Redoing", api, announce, done: "restored", about: reveal(change.title),
    words: `The changes of this run come back. ${KEPT}`,
    ask: (request) => api.redoRun(change.checkpoint_id, request),
  });

/**
 * Go back to before a message of a conversation. `goBack()` moves the conversation and resolves to whether it did.
 */
export const openRewind = ({ api, ask, message, goBack, announce }) =>
  openPlan({
    title: "Go back to before this message", yes: "Go back", doing: "Undoing", api, announce, done: "undone", about: reveal(message), ways: true, goBack, ask,
    words: `Later messages are kept, and can be brought back. ${KEPT} What MCP tools did, or commands outside the project, is not undone.`,
  });

/** The changes of a run, file by file. */
export const openRun = ({ api, change, undo }) =>
  openDialog({
    label: "Changes of this run", kind: "rollback",
    build(close) {
      const { checkpoint_id: id, is_undone: isUndone, title } = change;
      const views = rowsOf(change).map(({ file: { file_path: path }, from }, index) => {
        if (from) return h("p", {}, h("span", { class: "mono" }, `${revealPath(from.file_path)} → ${revealPath(path)}`), " ", h("span", { class: "dim" }, "moved, unchanged"));
        const place = h("div", {});
        const load = async () => {
          if (!details.open || place.firstChild) return;
          fill(place, h("p", { class: "dim note" }, "Loading…"));
          const patch = await api.diff3(id, path).then((diff) => diff.proposed_patch, (error) => error);
          fill(place, patch instanceof Error ? h("p", { class: "dim note" }, patch.message) : patchView(patch, { heads: false }));
        };
        const details = h("details", { open: index < INITIALLY_OPEN, ontoggle: load }, h("summary", { class: "mono" }, revealPath(path)), place);
        return details;
      });
      const back = () => {
        close();
        undo();
      };
      return [
        dialogHead("Changes of this run", close), h("p", { class: "dim words" }, reveal(title) || "Untitled run"),
        h("div", { class: "rollback-body", tabindex: "0", role: "group", "aria-label": "Changes" }, ...views),
        h("div", { class: "row" }, h("button", { type: "button", class: "primary", autofocus: true, onclick: () => close() }, "Close"),
          !isUndone && h("button", { type: "button", onclick: back }, "Undo…")),
      ];
    },
  });

/** A name for an operation, which the page can ask about. */
const newOperation = () => `undo-${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;

const openPlan = (given) => openDialog({ label: given.title, kind: "rollback", build: (close) => new PlanDialog({ ...given, close }).begin() });

class PlanDialog {
  /**
   * `ask({dryRun, files, operation})` plans or does it; with `ways` the conversation goes back, too, by `goBack()`. `place` is
   * where the files change, if that is not on disk.
   */
  constructor(given) {
    Object.assign(this, { place: "", ...given });
    this.way = this.ways ? "talk" : "files";
    this.plan = null;
    this.note = h("p", { class: "words", role: "status" });
    this.shown = h("div", { class: "rollback-plan" });
    this.choice = h("fieldset", { class: "rollback-ways", hidden: true }, h("legend", { class: "sr-only" }, "What goes back"));
    this.cancelButton = h("button", { type: "button", class: "primary", autofocus: true, onclick: () => this.close() }, "Cancel");
    this.confirmButton = h("button", { type: "button", class: "danger", disabled: true, onclick: () => this.#execute() }, this.yes);
    this.stopButton = h("button", { type: "button", hidden: true }, "Stop");
  }

  begin() {
    this.#load();
    return [
      dialogHead(this.title, this.close), h("p", { class: "dim words" }, this.about || "Untitled run"), this.choice, h("p", {}, this.words),
      h("div", { class: "rollback-body", tabindex: "0", role: "group", "aria-label": "Preview" }, this.note, this.shown),
      h("div", { class: "row" }, this.cancelButton, this.stopButton, this.confirmButton),
    ];
  }

  async #load(words = "") {
    this.confirmButton.disabled = true;
    setText(this.note, words || "Loading preview…");
    this.plan = null;
    try {
      this.plan = await this.ask({ dryRun: true });
    } catch (error) {
      setText(this.note, error.message);
      this.confirmButton.disabled = !this.ways;
      return;
    }
    if (this.ways && this.plan?.files.length) this.#offerWays();
    this.#show(words);
  }

  #offerWays() {
    if (!this.choice.hidden) return;
    this.way = "both";
    this.choice.hidden = false;
    this.choice.append(...WAYS.map(([way, label]) => h("label", { class: "row" },
      h("input", { type: "radio", name: "rewind-way", value: way, checked: way === this.way, onchange: () => this.#choose(way) }), label)));
  }

  #choose(way) {
    this.way = way;
    this.#show();
  }

  get #takesFiles() {
    return this.way !== "talk";
  }

  #show(words = "") {
    const { files = [], conflicts = [] } = this.plan ?? {};
    const isPart = this.ways && !this.#takesFiles;
    this.confirmButton.disabled = this.#takesFiles && files.length === 0;
    const would = isPart ? "The files stay as they are." : files.length ? `${pluralize(files.length, "file")} would change${this.place}.` : "No file would change.";
    setText(this.note, [words, would].filter(Boolean).join(" "));
    fill(this.shown, ...(isPart ? [] : [...conflictsView(conflicts), ...filesView(files)]));
  }

  async #execute() {
    this.confirmButton.disabled = true;
    const done = this.#takesFiles && (await this.#undoFiles());
    if (this.#takesFiles && !done) return;
    if (this.ways && this.way !== "files" && !(await this.goBack())) {
      this.confirmButton.disabled = false;
      return;
    }
    if (done?.conflicts?.length > 0) this.#showLeft(done);
    else this.close(true);
  }

  /** Change the files as they were shown; returns the server's answer, or null if that was not done. */
  async #undoFiles() {
    const { files } = this.plan;
    const operation = newOperation();
    const progress = this.#follow(operation);
    try {
      const done = await this.ask({ files, operation });
      this.announce(this.#describe(done));
      return done;
    } catch (error) {
      progress.end();
      await this.#load(error.code === "save_stopped" ? `${error.message} ${this.yes} again to complete it.` : error.message);
      return null;
    } finally {
      progress.end();
    }
  }

  /** Show how far it has come, and a button that stops it, once it takes longer than a moment; until `end()`. */
  #follow(operation) {
    let isOver = false;
    const show = async () => {
      const { done, total } = await this.api.operation(operation).catch(() => ({ total: 0 })); // the next one tells
      if (isOver) return;
      if (total > 0) {
        this.#offerStop(operation);
        setText(this.note, this.stopButton.disabled ? "Stopping …" : `${this.doing} ${formatNumber(done)} of ${pluralize(total, "file")} …`);
      }
      timer = setTimeout(show, PROGRESS_INTERVAL);
    };
    let timer = setTimeout(show, PROGRESS_INTERVAL);
    setAttr(this.note, "aria-live", "off"); // a screen reader would say each number
    const end = () => {
      isOver = true;
      clearTimeout(timer);
      setAttr(this.note, "aria-live", null);
      this.stopButton.hidden = true;
      this.cancelButton.hidden = false;
      if (isFocusLost()) this.cancelButton.focus(); // the button that had the focus is gone
    };
    return { end };
  }

  #offerStop(operation) {
    if (!this.stopButton.hidden) return;
    this.stopButton.disabled = false;
    this.stopButton.onclick = () => {
      this.stopButton.disabled = true;
      this.api.stopOperation(operation).catch(() => (this.stopButton.disabled = false));
    };
    this.stopButton.hidden = false;
    this.cancelButton.hidden = true;
    this.stopButton.focus();
  }

  /** "1 file undone: README.md. 1 place was not undone." */
  #describe({ files = [], conflicts = [] }) {
    const names = files.length <= MAX_NAMED ? `: ${files.map(({ file_path: path }) => revealPath(path)).join(", ")}` : "";
    const left = conflicts.length > 0 ? ` ${pluralize(conflicts.length, "place")} not ${this.done}.` : "";
    return `${pluralize(files.length, "file")} ${this.done}${names}.${left}`;
  }

  /** Show what was not undone, which the user has to see before the dialog goes. */
  #showLeft(done) {
    this.choice.hidden = true;
    setText(this.note, this.#describe({ ...done, conflicts: [] }));
    fill(this.shown, ...conflictsView(done.conflicts, `not ${this.done}`));
    this.cancelButton.textContent = "Close";
    this.confirmButton.hidden = true;
    this.cancelButton.focus();
  }
}
