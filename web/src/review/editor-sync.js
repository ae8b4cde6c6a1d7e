// Synchronizes a file between its editor and the server.
//
//   known      the server's latest state: {view, text, returns, usual}; see splices.js
//   inFlight   the change of `known.text` that is being sent, or null
//   unsent     the change from there to the text of the editor
//
// The server's text never replaces typed text: its difference to `known` is applied in the editor, and `unsent` is rebased on
// it. One request is in flight at a time, and typed text is sent before anything else.

import { ChangeSet } from "@codemirror/state";
import { reuseHunks } from "./hunk-format.js";
import { changesBetween, fileOf, splitChange, splicesOf } from "./splices.js";

const SEND_DELAY = 300; // ms without a key after which typed text is sent
const MAX_SEND_DELAY = 2_000; // ms after which it is sent while typing goes on
const MAX_SPLICES = 1_000; // splices of one request
const MAX_ATTEMPTS = 5; // attempts, each with a newer revision

export class EditorSync {
  /**
   * `onText(changes)` applies remote changes in the editor, `onChange()` is called after each change of state,
   * `onTyped(error)` with the reason why typed text was refused, or null once it is accepted.
   */
  constructor({ path, api, view, onText, onChange, onTyped }) {
    Object.assign(this, { path, api, onText, onChange, onTyped });
    this.known = { view, ...fileOf(view.content ?? "") };
    this.unsent = ChangeSet.empty(this.known.text.length);
    this.inFlight = null;
    this.mayBeThere = false; // whether the server may already have some of `unsent`, because an answer was lost
    this.isOver = false;
    this.isWaiting = false; // for a connection
    this.refusal = null; // why typed text was refused
    this.last = Promise.resolve();
  }

  get isTyped() {
    return this.inFlight !== null || !this.unsent.empty;
  }

  /** The change from `known.text` to the text of the editor. */
  get local() {
    return this.inFlight ? this.inFlight.compose(this.unsent) : this.unsent;
  }

  /** Whether a hunk contains unsent text. */
  touches({ start_line: start, end_line: end }) {
    const { text } = this.known;
    if (start > text.lines) return Boolean(this.local.touchesRange(text.length));
    return Boolean(this.local.touchesRange(text.line(start).from, text.line(Math.min(Math.max(start, end), text.lines)).to));
  }

  /** Restore stored edits, a change of `known.text`; they are sent first. */
  restore(changes) {
    this.unsent = changes;
    this.mayBeThere = true; // the page may have been closed while they were sent
    this.onChange();
    this.send();
  }

  typed(changes) {
    this.unsent = this.unsent.compose(changes);
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.send(), SEND_DELAY);
    this.latest ??= setTimeout(() => this.send(), MAX_SEND_DELAY);
    this.onChange();
  }

  /** Send typed text. Also resolves if the server refused it: `onTyped` got the reason. */
  send() {
    clearTimeout(this.pause);
    clearTimeout(this.latest);
    this.latest = null;
    return this.isTyped ? this.do(async () => {}).catch(() => {}) : this.last;
  }

  /** Apply a view of the file that was read elsewhere, if it is newer. */
  applyView(view) {
    if (!this.#isNew(view)) return;
    this.#queue(async () => {
      if (this.#isNew(view)) this.#rebase(this.known.text, view);
    });
  }

  /** Read the file again after a failed action; if it cannot be read, nothing changes. */
  async refresh() {
    await this.#queue(() => this.#read()).catch(() => {});
  }

  /**
   * Run an action on the file once all typed text is sent: `act(rev)` returns the new view, or nothing. If the server is at
   * another revision, `isWanted()` returns whether to run it all the same. Rejects with an ApiError.
   */
  do(act, isWanted = () => true) {
    return this.#queue(async () => {
      await this.#sendAll();
      for (let left = MAX_ATTEMPTS; ; left -= 1) {
        try {
          const view = await act(this.known.view.rev);
          if (view) this.#rebase(this.known.text, view);
          return true;
        } catch (error) {
          if (error.code !== "stale_revision" || left <= 1) throw error;
          await this.#read();
          if (!isWanted()) return false;
        }
      }
    });
  }

  end() {
    this.isOver = true;
    clearTimeout(this.pause);
    clearTimeout(this.latest);
  }

  // -- within -----------------------------------------------------------------------------------

  /** A path that was or became a link may stand for another file by now, which counts its own revisions. */
  #isNew(view) {
    const { view: known } = this.known;
    return view.file_path !== known.file_path || view.rev > known.rev;
  }

  async #read() {
    this.#rebase(this.known.text, await this.api.file(this.path));
  }

  /** Run actions one after another; without a connection, wait for it. */
  #queue(job) {
    const done = this.last.then(() => this.#persist(job));
    this.last = done.then(() => {}, () => {});
    return done;
  }

  async #persist(job) {
    for (;;) {
      try {
        return await job();
      } catch (error) {
        if (error.code !== "connection" || this.isOver) throw error;
        this.isWaiting = true;
        this.onChange();
        await this.api.untilUp();
      } finally {
        this.isWaiting = false;
      }
    }
  }

  async #sendAll() {
    try {
      for (let left = MAX_ATTEMPTS; !this.unsent.empty; ) {
        try {
          await this.#sendSome();
          left = MAX_ATTEMPTS;
        } catch (error) {
          left -= 1;
          if (error.code !== "stale_revision" || left <= 0) throw error;
          await this.#reconcile(error.sent);
        }
      }
      this.#setRefusal(null);
    } catch (error) {
      if (error.code !== "connection") this.#setRefusal(error);
      throw error;
    }
  }

  #setRefusal(error) {
    if (error === this.refusal) return;
    this.refusal = error;
    this.onTyped(error);
    this.onChange();
  }

  async #sendSome() {
    const [first, rest] = splitChange(this.unsent, MAX_SPLICES);
    const splices = splicesOf(this.known, first);
    const sent = first.apply(this.known.text);
    if (splices.length === 0) {
      this.#moveOn(sent, rest);
      return;
    }
    [this.inFlight, this.unsent] = [first, rest];
    this.onChange();
    try {
      const view = await this.api.edit(this.path, this.known.view.rev, splices);
      this.inFlight = null;
      this.mayBeThere = false;
      this.#rebase(sent, view);
    } catch (error) {
      this.unsent = this.local;
      this.inFlight = null;
      this.mayBeThere ||= error.code === "connection" || error.wasLost;
      throw Object.assign(error, { sent: first });
    }
  }

  /** Text that was typed and deleted again leaves no change. */
  #moveOn(text, rest) {
    this.known = { ...this.known, text };
    this.unsent = rest;
    this.onChange();
  }

  /**
   * The server is at a newer revision. If an answer was lost, it may already have the sent text: then its text is nearer to that
   * than to `known`.
   */
  async #reconcile(sent) {
    const view = await this.api.file(this.path);
    const { mayBeThere } = this;
    this.mayBeThere = false;
    const { text } = fileOf(view.content ?? "");
    const here = sent.apply(this.known.text);
    if (!mayBeThere || !(sizeOf(changesBetween(here, text)) < sizeOf(changesBetween(this.known.text, text)))) {
      this.#rebase(this.known.text, view);
      return;
    }
    // `local` is `sent` and the text typed after it: only the latter is unsent.
    this.unsent = changesBetween(here, this.unsent.apply(this.known.text));
    this.#rebase(here, view);
  }

  /** Rebase `unsent` from the text `from` to the server's new text. */
  #rebase(from, view) {
    const next = { view: reuseHunks(view, this.known.view), ...fileOf(view.content ?? "", from) };
    const theirs = next.text === from ? ChangeSet.empty(from.length) : changesBetween(from, next.text);
    const here = theirs.map(this.unsent);
    this.unsent = this.unsent.map(theirs, true);
    this.known = next;
    if (!this.isOver) this.onText(here);
    this.onChange();
  }
}

function sizeOf(changes) {
  let size = 0;
  changes.iterChangedRanges((fromA, toA, fromB, toB) => (size += toA - fromA + toB - fromB));
  return size;
}
