// The list of pending changes, by file. J and K move through it, A and R decide on the focused item.

import { confirm } from "../dialog.js";
import { fill, h, icon, isFocusLost, reconcile, setAttr, setText, showButton } from "../dom.js";
import { pluralize, revealPath } from "../format.js";
import { FileRow } from "./sidebar-file.js";
import { describeSkipped, formatPlace } from "./hunk-format.js";
import { movesOf } from "./change-labels.js";
import { countPending } from "./review-store.js";
import { choiceOf } from "./pending-decisions.js";
import { stepOf } from "./editor-keys.js";
import { PendingDecisionsCard } from "./pending-decisions-card.js";
import { ProgressBar } from "./progress-bar.js";
import { filesToSave, isFileReviewed, isReviewed, nextOf, saveLabel } from "./review-progress.js";

const MAX_AUTO_UNFOLDED = 40; // hunks up to which all files are unfolded initially
const PAGE_SIZE = 100; // files that are listed at first

export class HunkList {
  constructor({ api, review, waiting, openFile, origins, announce, revise }) {
    Object.assign(this, { api, review, waiting, openFile, origins, announce, revise });
    this.card = new PendingDecisionsCard({ waiting });
    this.progress = new ProgressBar();
    this.rows = new Map(); // by path
    this.folds = new Map(); // path → whether the user unfolded or folded it
    this.shown = PAGE_SIZE;
    const button = (words, act, props = {}) => h("button", { type: "button", onclick: act, ...props }, words);
    this.title = h("span", { tabindex: "-1" }, "To review");
    this.accept = button("Accept all", () => this.#allFiles("accept"));
    this.reject = button("Reject all", () => this.#allFiles("reject"));
    this.save = button("", () => this.saveAccepted(), { title: "Save to the files (Ctrl+S)" });
    this.taken = null; // the latest decision on all files, which can be taken back: {files}
    this.takenWords = h("span", {});
    this.takeBack = button("Undo", () => this.#takeBack(), { class: "link" });
    this.takenNote = h("p", { class: "dim", hidden: true }, this.takenWords, " · ", this.takeBack);
    this.problem = h("p", { class: "problem bad-text" });
    this.note = h("p", { class: "dim" });
    this.list = h("ul", { class: "files-to-review", "aria-label": "Files to review", onkeydown: (event) => this.#key(event) });
    this.more = button("", () => {
      this.shown += PAGE_SIZE;
      this.update(this.review.get());
    }, { class: "quiet", hidden: true });
    this.el = h("section", { class: "to-review", "aria-label": "To review", onkeydown: (event) => this.#undoKey(event) },
      h("div", { class: "section-head" }, this.title, h("span", { class: "row" }, this.accept, this.reject)),
      this.progress.el, this.card.el, this.takenNote, this.save, this.problem, this.note, this.list, this.more);
  }

  /** `state` as in review-store.js. */
  update(state) {
    const { pending, files, problem, isUp, waiting } = state;
    const hasEnded = isReviewed(pending) && !isReviewed(this.files);
    const hadFocus = this.list.contains(document.activeElement);
    this.card.update(state);
    this.progress.update(state.progress);
    this.files = pending ?? [];
    const { hunks, files: count, conflicts } = countPending(pending);
    setText(this.title, count > 0 ? `To review · ${pluralize(count, "file")}` : "To review");
    const isOff = !isUp || this.isBusy;
    this.accept.hidden = this.reject.hidden = hunks === 0;
    this.accept.disabled = isOff || hunks - conflicts <= 0;
    this.reject.disabled = this.takeBack.disabled = isOff;
    // Shown before there is anything to save: appearing, it would move the buttons below from under the pointer.
    this.save.hidden = count === 0;
    this.save.disabled = isOff || filesToSave(pending).length === 0;
    setText(this.save, saveLabel(pending));
    setAttr(this.save, "class", isReviewed(pending) ? "primary" : null);
    const empty = pending === null ? "" : "Nothing to review.";
    setText(this.note, problem || (count === 0 ? empty : ""));
    setAttr(this.note, "class", problem ? "bad-text" : "dim");
    const moves = movesOf(this.files);
    const gone = new Set([...moves.values()].map((file) => file.file_path));
    const listed = this.files.filter((file) => !gone.has(file.file_path)).map((file) => ({ file, from: moves.get(file.file_path) ?? null }));
    this.#rows(listed.slice(0, this.shown), files, waiting, { isUp, isBusy: this.isBusy, unfold: hunks <= MAX_AUTO_UNFOLDED });
    const left = Math.max(0, listed.length - this.shown);
    showButton(this.more, left > 0, () => this.#items().at(-1));
    setText(this.more, left > 0 ? `Show more (${pluralize(left, "file")} left)` : "");
    if (hadFocus && hasEnded && !this.save.disabled) this.save.focus(); // what is left to do
  }

  #rows(shown, views, waiting, { isUp, isBusy, unfold }) {
    const hadFocus = this.list.contains(document.activeElement);
    const place = hadFocus ? this.#items().indexOf(this.#current()?.querySelector("[data-item]")) : -1;
    reconcile(this.list, this.rows, shown, {
      keyOf: ({ file, from }) => `${from !== null} ${file.file_path}`, // a move has no hunks to unfold
      create: ({ file, from }) => this.#row(file.file_path, from === null && (this.folds.get(file.file_path) ?? (unfold && !isFileReviewed(file)))),
      update: (row, { file, from }) => row.update({ file, from, view: views[file.file_path], waiting: waiting[file.file_path], isUp, isBusy }),
      remove: (row) => row.destroy(),
    });
    if (!hadFocus || this.list.contains(document.activeElement)) return;
    const items = this.#items();
    (items[Math.min(Math.max(place, 0), items.length - 1)] ?? this.title).focus({ preventScroll: true }); // what took its place
  }

  #rowOf = (path) => [...this.rows.values()].find((row) => row.path === path || row.movedFrom?.file_path === path);

  #row(path, isUnfolded) {
    const row = new FileRow({
      path, review: this.review, origins: this.origins,
      actions: {
        open: (at, hunk) => this.openFile(at, hunk && { hunk: hunk.hunk_id }),
        decide: (at, hunk, action, mine) => this.#decide(at, hunk, action, mine),
        revise: (at, hunk) => this.revise(at, hunk),
        split: (at, hunk) => this.#split(at, hunk),
        withdraw: (at, hunk) => this.waiting.withdraw(at, hunk.hunk_id),
        all: (file, action, from) => Promise.all([from, file].filter(Boolean).map((each) => this.#file(each, action))),
        toggled: (at, isOpen) => {
          this.folds.set(at, isOpen);
          this.update(this.review.get());
        },
      },
    });
    row.fold(isUnfolded);
    return row;
  }

  // -- deciding -------------------------------------------------------------------------------------

  /** Resolves to an error message, or "". */
  async #decide(path, hunk, action, mine) {
    const { isDone, problem } = await this.waiting.choose(path, [hunk], choiceOf(action, mine), { base: mine === "base" });
    if (problem) this.review.touch([path]);
    if (problem || isDone) this.announce(problem || `${DONE_LABELS[action]} ${revealPath(path)}, ${formatPlace(hunk)}.`);
    return problem;
  }

  /** Replace a hunk by its parts. Resolves to an error message, or "". */
  async #split(path, hunk) {
    try {
      await this.waiting.settled(path);
      const { rev } = await this.api.file(path);
      await this.review.take(path, this.api.decide(path, rev, "split", { hunks: [hunk.seen_id] }));
      this.announce("Split.");
      return "";
    } catch (error) {
      this.announce(error.message);
      return error.message;
    }
  }

  /** Decide all undecided hunks of a file that were shown, but accept no conflict and reject no lines of the user's own. */
  async #file(file, action) {
    const path = file.file_path;
    const say = (words) => this.#rowOf(path)?.say(words);
    try {
      say("");
      const known = this.review.get().files[path];
      const { hunks } = known?.hunks ? known : await this.review.take(path, this.api.file(path));
      const open = hunks.filter((hunk) => hunk.state === "pending" && file.hunk_ids.includes(hunk.seen_id));
      const some = open.filter((hunk) => !(action === "accept" ? hunk.conflict : hunk.mine));
      const { isDone, problem } = await this.waiting.choose(path, some, choiceOf(action));
      if (action === "reject" && open.length > some.length) say(describeSkipped(open.length - some.length));
      if (problem) say(problem);
      if (problem || isDone) this.announce(problem || `${DONE_LABELS[action]} ${revealPath(path)}.`);
    } catch (error) {
      say(error.message);
      this.announce(error.message);
    }
    this.review.touch([path]);
  }

  /** Do the same for all files, in one request. */
  async #allFiles(action) {
    const open = this.files.filter((file) => file.pending > 0);
    const { hunks, files, conflicts } = countPending(open);
    const sure = action === "accept" || (await confirm({
      title: "Reject all?",
      words: `${pluralize(hunks, "hunk")} in ${pluralize(files, "file")} will be rejected. You can restore each one in its file.`,
      yes: "Reject all",
    }));
    if (!sure) return;
    this.#busy(true);
    fill(this.problem);
    try {
      const done = await this.api.decideAll(action, open);
      if (action === "reject") for (const file of done) if (file.left > 0) this.#rowOf(file.file_path)?.say(describeSkipped(file.left));
      const rest = action === "accept" && conflicts > 0 ? ` ${pluralize(conflicts, "conflict")} left: decide each one individually.` : "";
      this.#offerUndo(done.filter((file) => file.hunk_ids.length > 0), action);
      this.announce(`${this.takenWords.textContent}.${rest}`);
    } catch (error) {
      fill(this.problem, icon("warn"), error.message);
      this.announce(error.message);
    }
    this.#busy(false);
    this.review.touch();
    if (this.taken && isFocusLost()) this.takeBack.focus();
  }

  /** Offer to take a decision on all files back; `files` as the server decided them. */
  #offerUndo(files, action) {
    this.taken = files.length > 0 ? { files } : null;
    this.takenNote.hidden = !this.taken;
    const hunks = files.reduce((sum, file) => sum + file.hunk_ids.length, 0);
    setText(this.takenWords, `${DONE_LABELS[action]} ${pluralize(hunks, "hunk")} in ${pluralize(files.length, "file")}`);
  }

  /** Take the decision on all files back, in one step. */
  async #takeBack() {
    const { files } = this.taken;
    this.#busy(true);
    fill(this.problem);
    try {
      await this.api.decideAll("reopen", files);
      this.#offerUndo([], "reopen");
      this.announce("Undone.");
      this.title.focus();
    } catch (error) {
      fill(this.problem, icon("warn"), error.message);
      this.announce(error.message);
    }
    this.#busy(false);
    this.review.touch();
  }

  #undoKey(event) {
    if (!this.taken || this.isBusy || stepOf(event) !== "undo") return;
    event.preventDefault();
    event.stopPropagation();
    this.#takeBack();
  }

  /** Save accepted changes, including those decided just before. */
  async saveAccepted() {
    if (this.isBusy) return;
    this.#busy(true);
    fill(this.problem);
    let next = this.title;
    try {
      const saved = await this.waiting.saveAccepted();
      this.#offerUndo([], "reopen"); // what is in the files, no decision takes back
      if (saved.length === 0) return this.announce("All accepted changes are saved.");
      const hunks = saved.reduce((sum, file) => sum + file.saved_hunks, 0);
      this.announce(`Saved ${pluralize(hunks, "hunk")} in ${pluralize(saved.length, "file")}.`);
    } catch (error) {
      const again = error.code === "stale_revision" ? " Check what changed, then save again." : "";
      fill(this.problem, icon("warn"), error.message + again);
      this.announce(error.message);
      next = this.save;
    } finally {
      this.#busy(false);
      this.review.touch();
      if (isFocusLost()) next.focus();
    }
  }

  #busy(isBusy) {
    this.isBusy = isBusy;
    setAttr(this.el, "aria-busy", isBusy);
    this.update(this.review.get());
  }

  // -- the keyboard -----------------------------------------------------------------------------------

  #items = () => [...this.list.querySelectorAll("[data-item]")].filter((each) => each.offsetParent !== null);

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { j: () => this.#go(1), k: () => this.#go(-1), a: () => this.#verdict("accept"), r: () => this.#verdict("reject"), c: () => this.#revise() }[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  /** The item that has the focus. */
  #current() {
    const element = document.activeElement?.closest(".listed-hunk, .listed-file");
    return element && this.list.contains(element) ? element : null;
  }

  #go(by) {
    const items = this.#items();
    const isOpen = (item) => item.closest(".listed-hunk, .listed-file").row.isOpen;
    const isAnyOpen = items.some(isOpen);
    const index = items.indexOf(this.#current()?.querySelector("[data-item]"));
    nextOf(items, index, by, (item) => !isAnyOpen || isOpen(item))?.focus();
  }

  #revise() {
    const row = this.#current()?.row;
    if (row instanceof FileRow || !row || row.revise.hidden) return;
    row.revise.click();
  }

  /** Decide on the focused item, and move to the next undecided one. */
  async #verdict(action) {
    const row = this.#current()?.row;
    if (!row) return;
    if (row instanceof FileRow) {
      const button = row[action];
      if (!button.disabled) button.click();
      return;
    }
    const button = row[action];
    if (button.hidden || button.disabled) return;
    if (action === "accept" && row.hunk.conflict) {
      this.announce("Conflict: choose Keep proposal to overwrite the current text.");
      button.focus();
      return;
    }
    const items = this.#items();
    const isNext = (item) => item !== row.main && item.dataset.item === "hunk" && item.closest(".listed-hunk").row.isOpen;
    const next = nextOf(items, items.indexOf(row.main), 1, isNext);
    const done = row.decide(action);
    if (row.choice.hidden) (next ?? row.main).focus();
    await done;
  }
}

const DONE_LABELS = { accept: "Accepted", reject: "Rejected", reopen: "Undecided again:" };
