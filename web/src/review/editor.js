// The editor tab of a file: its text with the hunks in it.
//
// The editor has no history of its own. Typed text is sent to the file's journal after a pause, as decisions are, and undo
// reverts the latest entry of either kind: docs/adr/0016.

import { Annotation } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { fill, h, isFocusLost } from "../dom.js";
import { plain, revealPath } from "../format.js";
import { rootOf } from "./api.js";
import { describeChange } from "./change-labels.js";
import { loadInitialState, createStoredSync, unsavedTextCard } from "./draft-restore.js";
import { EditorBar } from "./editor-bar.js";
import { EditorDecisions } from "./editor-deciding.js";
import { editorKeys, pageKey } from "./editor-keys.js";
import { createEditor, selectedLines } from "./editor-setup.js";
import { HunkMarks, hunkField, positionIn } from "./hunks.js";
import { formatPlace } from "./hunk-format.js";
import { isReviewed, nextOf } from "./review-progress.js";
import { isRevisable, revisionOf } from "./revisions.js";
import { BinaryFileView } from "./binary-file-view.js";

const fromElsewhere = Annotation.define();
const NO_TEXT = { directory: "is a folder", special: "is no regular file" };

export class FileEditor {
  /** A view of the page: {el, load(), shown(), hidden(), focus(), destroy()}; `announce(text)` speaks to a screen reader. */
  constructor({ path, review, api, waiting, unsent, announce, nextFile, revise, cancelRevision, versions }) {
    Object.assign(this, { path, review, api, waiting, unsent, announce });
    this.revisions = { ask: revise, cancel: cancelRevision, versions };
    this.el = h("section", { class: "panel file-editor", tabindex: "-1", "aria-label": revealPath(path) });
    this.nextFile = (by) => nextFile(path, by);
    this.readers = new Set();
    this.opened = new Set(); // ids of the hunks whose text is unfolded
    this.current = null; // the id of the hunk that the keys apply to
    this.endsReview = false; // the user has just decided the last hunk of the file by keyboard
    this.gutter = { // the toolbar above a hunk is as wide as the visible text
      read: (view) => view.dom.querySelector(".cm-gutters").offsetWidth,
      write: (width) => this.el.style.setProperty("--gutter", `${width}px`),
    };
    this.onKey = (event) => pageKey(event, this);
  }

  // -- a view of the page ---------------------------------------------------------------------------

  load() {
    this.loading ??= this.#load().finally(() => (this.loading = null));
    return this.loading;
  }

  async #load() {
    if (this.sync || this.whole) return;
    this.#say("Loading…");
    this.release ??= this.review.hold(this.path);
    try {
      const begun = await loadInitialState(this);
      if (this.isOver) return;
      this.lost = begun.lost && unsavedTextCard(begun.lost, { ...this, gone: () => this.lost.remove() });
      this.#open(begun);
    } catch (error) {
      this.#say(error.message, h("button", { type: "button", onclick: () => this.load() }, "Try again"));
    }
  }

  again = () => (this.sync ? this.sync.send() : this.load());

  shown() {
    document.addEventListener("keydown", this.onKey);
    this.view?.requestMeasure();
  }

  hidden() {
    document.removeEventListener("keydown", this.onKey);
    this.sync?.send();
  }

  focus() {
    (this.view ?? this.whole ?? this.el).focus();
  }

  destroy() {
    this.isOver = true;
    this.hidden();
    this.release?.();
    this.end?.();
    this.#stopEditing();
    this.whole?.destroy();
  }

  /** Whether there is unsent text or an unsaved decision; null while the file is loading. */
  get isDirty() {
    if (this.whole) return this.whole.isDirty;
    return this.sync && (this.sync.isTyped || this.deciding.counts.unsaved > 0);
  }

  /** The selected lines: {startLine, endLine, text}; null for none. */
  get selection() {
    return this.view ? selectedLines(this.view.state) : null;
  }

  /** Call a function whenever the state that a tab shows has changed. */
  onState(reader) {
    this.readers.add(reader);
  }

  /** Go to a hunk, a line, or the first or last undecided hunk: {hunk}, {line}, {undecided: 1} or {undecided: -1}. */
  reveal(place) {
    this.wanted = place;
    const { hunks = [], isUndecided } = this.deciding ?? {};
    const isWanted = place.undecided ? isUndecided : (each) => each.hunk_id === rootOf(place.hunk ?? "");
    const hunk = hunks.length > 0 ? nextOf(hunks, -1, place.undecided ?? 1, isWanted) : undefined;
    if (!this.view || (place.hunk && !hunk)) return;
    this.wanted = null;
    if (hunk) this.#goTo(hunk);
    else if (place.line) this.#draw(this.view.state.doc.line(Math.min(place.line, this.view.state.doc.lines)).from);
  }

  // -- what keys and buttons do ---------------------------------------------------------------------

  save = () => (this.whole ?? this.deciding)?.save();

  async step(kind) {
    this.isFollowing = true;
    await this.deciding?.step(kind);
    this.isFollowing = false;
  }

  /** Go to the next undecided hunk, or with -1 to the previous one, in this file or another; if all are decided, to the next one here that is not rejected. */
  move(by) {
    const { hunks = [], isUndecided, wanted } = this.deciding ?? {};
    const at = hunks.findIndex((hunk) => hunk.hunk_id === this.current);
    const ahead = by > 0 ? hunks.slice(at + 1) : hunks.slice(0, at < 0 ? hunks.length : at);
    if (!ahead.some(isUndecided) && this.nextFile(by)) return;
    if (hunks.length === 0) return;
    const next = nextOf(hunks, at, by, isUndecided) ?? nextOf(hunks, at, by, (hunk) => (wanted(hunk) ?? hunk.state) !== "rejected");
    if (next) this.#goTo(next);
  }

  /** Decide on the current hunk, and go to the next undecided one. */
  async decideCurrent(action) {
    if (this.whole) return this.whole.decide(action);
    const hunk = this.deciding?.hunks.find((each) => each.hunk_id === this.current);
    if (!hunk) this.move(1);
    else if (hunk.state === "pending" && !this.deciding.wanted(hunk)) await this.decide(hunk, action);
  }

  async decide(hunk, action, mine) {
    const hadFocus = this.el.contains(document.activeElement) && !this.view.hasFocus;
    const next = this.deciding.nextAfter(hunk);
    const done = this.deciding.decide(hunk, action, mine);
    if (hadFocus) this.el.focus({ preventScroll: true });
    if (this.deciding.asking === hunk.hunk_id) this.#focusHunk(hunk);
    else if (action !== "reopen" && next) this.#goTo(next, { isQuiet: true });
    this.endsReview = hadFocus && !next;
    await done;
  }

  /** Ask for a sentence by which an agent proposes the current hunk anew. */
  reviseCurrent() {
    const hunk = this.deciding?.hunks.find((each) => each.hunk_id === this.current);
    if (hunk) this.revise(hunk);
    else this.move(1);
  }

  async revise(hunk) {
    if (!isRevisable(hunk) || this.sync.touches(hunk)) return this.announce("An agent does not change your own lines, nor whole files.");
    if (!revisionOf(this.review.get(), this.path, hunk)) await this.revisions.ask(this.path, hunk);
    this.el.focus({ preventScroll: true });
  }

  fold(hunk) {
    if (!this.opened.delete(hunk.hunk_id)) this.opened.add(hunk.hunk_id);
    this.#draw();
    this.#focusHunk(hunk, "[aria-expanded]");
  }

  // -- within -----------------------------------------------------------------------------------------

  #say(words, ...more) {
    fill(this.el, this.lost, h("div", { class: "file-empty" }, h("p", { class: "dim" }, plain(words)), ...more));
  }

  #open({ view, changes }) {
    this.end ??= this.review.subscribe((state) => this.#applyView(state));
    this.#show(view);
    if (!changes) return;
    this.view.dispatch({ changes, annotations: fromElsewhere.of(true) });
    this.sync.restore(changes);
  }

  /** Show the file: an editor for text, else a view or a message. */
  #show(view) {
    const isText = view.kind === "text" || view.kind === "absent";
    if (isText && !this.sync) this.#edit(view);
    if (isText || this.sync?.isTyped) return;
    this.#stopEditing();
    if (NO_TEXT[view.kind]) this.#say(`${this.path} ${NO_TEXT[view.kind]}.`);
    else this.#showWhole(view);
  }

  #showWhole(view) {
    if (!this.whole) fill(this.el, (this.whole = new BinaryFileView(this)).el);
    this.whole.update(view, this.review.get().isUp);
    for (const reader of this.readers) reader();
  }

  #edit(view) {
    this.whole?.destroy();
    this.whole = null;
    const onTyped = (error) => (this.refusal = error);
    const sync = createStoredSync({ ...this, view, onText: (changes) => this.#takeText(changes), onChange: () => this.#state(), onTyped });
    this.sync = sync;
    this.deciding = new EditorDecisions({ ...this, changed: () => this.#draw() });
    this.detach = this.waiting.attach(this.path, (act) => sync.do(() => act(sync.known.view)));
    const on = this.deciding;
    this.marks = new HunkMarks({
      decide: (...words) => this.decide(...words), fold: (hunk) => this.fold(hunk), ask: on.ask, withdraw: on.withdraw, split: on.split,
      revise: (hunk) => this.revise(hunk), cancelRevision: this.revisions.cancel, versions: (hunk) => this.revisions.versions(this.path, hunk),
    });
    this.bar = new EditorBar({
      path: this.path,
      actions: {
        next: () => this.move(1), previous: () => this.move(-1), acceptAll: () => on.acceptAll(), rejectAll: () => on.rejectAll(),
        save: () => on.saveReviewed(), rerun: () => on.rerun(), keepProposal: () => this.#resolve(on.keepProposal()), keepFile: () => this.#resolve(on.keepFile()),
        resend: () => this.sync.send(),
      },
    });
    this.view = createEditor({
      path: revealPath(this.path), text: this.sync.known.text, keys: editorKeys(this),
      marks: this.marks.begin(this.sync.known.text, this.#shown()),
      onUpdate: (update) => this.#updated(update), onStep: (kind) => this.step(kind),
    });
    fill(this.el, this.lost, this.bar.el, this.view.dom);
    this.#state();
    if (this.wanted) this.reveal(this.wanted);
    else this.#begin();
  }

  /** Go to the first undecided hunk, if there is one. */
  #begin() {
    const { hunks, isUndecided } = this.deciding;
    const first = hunks.find(isUndecided);
    if (first) this.#goTo(first, { isQuiet: this.el.offsetParent === null });
  }

  #stopEditing() {
    this.detach?.();
    this.sync?.end();
    this.view?.destroy();
    this.sync = this.deciding = this.bar = this.view = null;
  }

  #applyView({ files, isUp, waiting, revising, answers }) {
    const view = files[this.path];
    if (view) this.#show(view);
    if (!this.sync) return;
    if (view) this.sync.applyView(view);
    const isNew = isUp !== this.isUp || waiting[this.path] !== this.waits || revising !== this.revising || answers !== this.answers;
    if (isNew) this.#draw();
    else this.#state();
    if (this.wanted) this.reveal(this.wanted);
  }

  #updated(update) {
    const isOurs = update.transactions.some((each) => each.annotation(fromElsewhere));
    if (update.docChanged && !isOurs) this.sync.typed(update.changes);
    else if (update.selectionSet) this.#state();
    if (update.geometryChanged) this.view?.requestMeasure(this.gutter);
  }

  #takeText(changes) {
    const effect = this.#marks(changes);
    if (!effect && changes.empty) return;
    const spec = { changes, effects: effect ?? [], annotations: fromElsewhere.of(true) };
    if (this.isFollowing && !changes.empty) {
      changes.iterChangedRanges((_, __, from, to) => (spec.selection ??= { anchor: to }));
      spec.scrollIntoView = true;
    }
    this.view.dispatch(spec);
  }

  /** Redraw the hunks; with `place`, scroll there. */
  #draw(place = null) {
    if (!this.view) return;
    const effects = [this.#marks(), place !== null && EditorView.scrollIntoView(place, { y: "center" })].filter(Boolean);
    const selection = place === null ? undefined : { anchor: place };
    if (effects.length > 0) this.view.dispatch({ effects, selection, annotations: fromElsewhere.of(true) });
    this.#state();
  }

  /** The effect that updates the marks of the hunks after `changes`; null if they are up to date. */
  #marks(changes = null) {
    const { known, local } = this.sync;
    return this.marks.draw(known.text, local, this.#shown(), changes?.empty === false ? null : this.view.state.field(hunkField));
  }

  #shown() {
    const { deciding } = this;
    const { isUp, waiting, revising, answers } = this.review.get();
    Object.assign(this, { isUp, waits: waiting[this.path], revising, answers });
    const { hunks } = deciding;
    return hunks.map((hunk, index) => ({
      ...deciding.shown(hunk, index, hunks.length), isOpen: this.opened.has(hunk.hunk_id), isCurrent: this.current === hunk.hunk_id,
    }));
  }

  #state() {
    if (!this.bar) return;
    const { hunks, problem, job } = this.deciding;
    const { isUp, pending, progress } = this.review.get();
    const file = pending?.find((each) => each.file_path === this.path);
    this.bar.update({
      progress, otherFiles: this.deciding.otherFilesToSave.length,
      about: file && describeChange(file),
      counts: this.deciding.counts, isTyped: this.sync.isTyped, isAbsent: this.sync.known.view.content === null && !this.sync.isTyped,
      hasHunks: hunks.some((hunk) => hunk.state !== "rejected"), isUp: isUp && !this.sync.isWaiting, isKept: this.unsent.isKept,
      refusal: this.refusal, problem, hasJob: Boolean(job?.id), isGone: this.sync.known.view.base_file_hash === "none",
    });
    if (this.endsReview && isReviewed(pending)) {
      this.endsReview = false;
      if (document.activeElement === this.el) this.bar.save.focus(); // what is left to do
    }
    this.deciding.findJob();
    for (const reader of this.readers) reader();
  }

  /** The buttons of a conflict disappear with it: the focus goes to what is left to do. */
  async #resolve(done) {
    await done;
    if (!this.isOver && isFocusLost()) (this.bar.save.disabled ? this.el : this.bar.save).focus();
  }

  #goTo(hunk, { isQuiet = false } = {}) {
    if (!this.view) return;
    this.current = hunk.hunk_id;
    const { known, local } = this.sync;
    this.#draw(local.mapPos(positionIn(known.text, hunk)));
    if (isQuiet) return;
    const { hunks } = this.deciding;
    const number = hunks.findIndex((each) => each.hunk_id === hunk.hunk_id) + 1;
    this.announce(`Hunk ${number} of ${hunks.length}, ${formatPlace(hunk)}. ${this.deciding.describe(hunk) || "undecided"}`);
  }

  #focusHunk(hunk, selector = "button:not(:disabled)") {
    const bar = [...this.el.querySelectorAll(".inline-hunk")].find((each) => each.dataset.hunk === hunk.hunk_id);
    bar?.querySelector(selector)?.focus({ preventScroll: true });
  }
}
