// A file in the list of pending changes: its counts, and its hunks when unfolded.

import { fill, h, icon, keepFocus, onceClicked, reconcile, setAttr, setText, showButton } from "../dom.js";
import { formatLineCounts, formatNumber, pluralize, revealPath } from "../format.js";
import { describeChange } from "./change-labels.js";
import { HunkRow } from "./sidebar-hunk.js";
import { isOpen } from "./pending-decisions.js";
import { isFileReviewed } from "./review-progress.js";
import { answerOf, revisionOf } from "./revisions.js";

const PAGE_SIZE = 50; // hunks that are shown at first

/** The counts of a file: "2 to decide · 1 to save · 1 rejected · 1 conflict". */
export const describeCounts = ({ pending, unsaved, rejected, pending_conflicts: conflicts }) =>
  [pending > 0 && `${formatNumber(pending)} to decide`, unsaved > 0 && `${formatNumber(unsaved)} to save`, rejected > 0 && `${formatNumber(rejected)} rejected`, conflicts > 0 && pluralize(conflicts, "conflict")]
    .filter(Boolean).join(" · ");

const describeMove = ({ pending }) => (pending > 0 ? "1 to decide" : "1 to save");

/** How many lines hunks add and remove: "+3 −1". */
export function countLines(hunks) {
  let [added, removed] = [0, 0];
  for (const { patch } of hunks) {
    for (const line of patch.split("\n")) {
      if (line.startsWith("+")) added += 1;
      else if (line.startsWith("-")) removed += 1;
    }
  }
  return formatLineCounts(added, removed);
}

export class FileRow {
  /** `actions`: open(path, hunk), decide(path, hunk, action, mine), split(path, hunk), withdraw(path, hunk), revise(path, hunk), all(file, action, from), toggled(path, isOpen). */
  constructor({ path, review, origins, actions }) {
    Object.assign(this, { path, review, origins, actions });
    this.name = h("span", { class: "file-name", title: revealPath(path) }, h("bdi", { dir: "ltr" }, revealPath(path)));
    this.count = h("span", { class: "aside" });
    this.lines = h("span", { class: "aside" });
    this.head = h("button", {
      type: "button", class: "file-head", "aria-expanded": "false", "data-item": "file", onclick: () => this.fold(!this.isUnfolded, true),
    }, icon("right"), this.name, this.lines, this.count);
    const button = (words, act) => h("button", { type: "button", "aria-label": `${words} ${revealPath(path)}`, onclick: onceClicked(act) }, words);
    this.accept = button("Accept file", () => actions.all(this.file, "accept", this.movedFrom));
    this.reject = button("Reject file", () => actions.all(this.file, "reject", this.movedFrom));
    this.open = button("Open", () => actions.open(path, null));
    this.buttons = h("div", { class: "row row-actions" }, this.accept, this.reject, this.open);
    this.from = h("p", { class: "origins" });
    this.note = h("p", { class: "hunk-note", hidden: true });
    this.list = h("ul", { class: "listed-hunks", "aria-label": `Hunks of ${revealPath(path)}` });
    this.more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#showMore() });
    this.body = h("div", { class: "file-body", hidden: true }, this.list, this.more);
    this.el = h("li", { class: "listed-file", onpointerleave: () => this.#foldIfDone() },
      this.head, this.from, this.buttons, this.note, this.body);
    this.el.row = this;
    this.rows = new Map(); // by hunk id
    this.shown = PAGE_SIZE;
    this.problem = "";
    this.mayFold = false; // it was reviewed just now
  }

  /** Whether it has undecided hunks. */
  get isOpen() {
    return this.file.pending > 0;
  }

  /** `file` is a PendingFile, `from` the one that is deleted if it is a move, else null; `view` is its FileView or undefined, `waiting` its pending decisions or undefined. */
  update(given) {
    keepFocus(this.buttons, () => (this.head.disabled ? this.open : this.head), () => this.#update(given));
  }

  #update({ file, from, view, waiting, isUp, isBusy }) {
    const wasReviewed = this.file && isFileReviewed(this.file);
    Object.assign(this, { file, movedFrom: from, waiting, isUp });
    const name = from ? `${revealPath(from.file_path)} → ${revealPath(this.path)}` : revealPath(this.path);
    setText(this.name, name);
    setAttr(this.name, "title", name);
    setAttr(this.el, "data-move", from !== null);
    if (from) this.fold(false);
    else if (wasReviewed !== undefined && wasReviewed !== isFileReviewed(file)) this.#reviewedOrReopened(!wasReviewed);
    this.head.disabled = from !== null;
    setText(this.count, from ? `moved, unchanged · ${describeMove(file)}` : [describeChange(file), describeCounts(file)].filter(Boolean).join(" · "));
    this.origins.show(this.from, file.run_ids);
    setAttr(this.el, "data-conflict", file.conflicts > 0);
    const isOff = isBusy || (!isUp && !view?.hunks); // the hunks to decide on are unknown
    if (from) this.accept.disabled = this.reject.disabled = isBusy || !isUp || file.pending === 0;
    else this.#bounds(file, isOff);
    this.accept.hidden = this.reject.hidden = isFileReviewed(file) && !this.isUnfolded;
    if (this.isUnfolded) this.#view(view);
    else if (this.view && this.view.rev !== file.rev) setText(this.lines, ""); // not known while it is folded
  }

  #bounds(file, isOff) {
    this.accept.disabled = isOff || file.pending <= file.pending_conflicts;
    this.reject.disabled = isOff || file.pending === 0;
  }

  #view(view) {
    const problem = view?.problem ?? ""; // why it could not be read
    if (problem !== this.problem) this.say(problem);
    this.problem = problem;
    if (!view?.hunks) return;
    if (view !== this.view) setText(this.lines, countLines(view.hunks.filter((hunk) => hunk.state !== "applied" && hunk.state !== "rejected")));
    this.view = view;
    this.#hunks();
  }

  fold(isOpen, isUserAction = false) {
    if (isOpen === this.isUnfolded) return;
    this.isUnfolded = isOpen;
    this.body.hidden = !isOpen;
    setAttr(this.head, "aria-expanded", isOpen);
    if (isOpen) this.release = this.review.hold(this.path);
    else this.release?.();
    if (isUserAction) this.mayFold = false;
    if (isUserAction) this.actions.toggled(this.path, isOpen);
  }

  /** A reviewed file is folded, and one with undecided hunks unfolded. */
  #reviewedOrReopened(isReviewed) {
    this.mayFold = isReviewed;
    if (!isReviewed) this.fold(true);
    else if (!this.el.matches(":hover")) this.#foldIfDone();
  }

  /** Not under the pointer: all below would move, and a second click hit something else. */
  #foldIfDone() {
    if (!this.mayFold) return;
    this.mayFold = false;
    this.fold(false);
  }

  /** Show a message about the whole file. */
  say(words) {
    this.note.hidden = words === "";
    fill(this.note, icon("warn"), h("span", {}, words));
  }

  destroy() {
    if (this.isUnfolded) this.release?.();
    this.el.remove();
  }

  #showMore() {
    this.shown += PAGE_SIZE;
    this.#hunks();
  }

  #hunks() {
    const all = this.view.hunks.filter((hunk) => hunk.state !== "applied");
    const hunks = all.slice(0, this.shown);
    const left = all.length - hunks.length;
    showButton(this.more, left > 0, () => this.list.lastChild.row.main);
    setText(this.more, left > 0 ? `Show more (${pluralize(left, "hunk")} left)` : "");
    const { open, withdraw, decide, revise, split } = this.actions;
    const state = this.review.get();
    reconcile(this.list, this.rows, hunks, {
      keyOf: (hunk) => hunk.hunk_id,
      create: () => new HunkRow({
        open: (hunk) => open(this.path, hunk),
        withdraw: (hunk) => withdraw(this.path, hunk),
        revise: (hunk) => revise(this.path, hunk),
        split: (hunk) => split(this.path, hunk),
        decide: (hunk, action, mine) => decide(this.path, hunk, action, mine),
      }),
      update: (row, hunk) => {
        const decision = this.waiting?.get(hunk.hunk_id);
        const wanted = isOpen(decision) ? decision.choice : null;
        row.update({
          hunk, file: this.file, wanted, isUp: this.isUp, from: this.origins.wordsOf(hunk, this.file),
          revision: revisionOf(state, this.path, hunk), answer: answerOf(state, this.path, hunk),
        });
      },
    });
  }
}
