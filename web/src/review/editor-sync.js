// One file between its editor and the server.
//
//   known      the server's latest word: {view, text, returns, usual}; see splices.js
//   inFlight   what is being sent, a change of `known.text`; null if nothing is
//   unsent     what was typed since, up to the text of the editor
//
// What the server has is never put in place of what is typed: its difference to what was known is carried out in the editor,
// and what is unsent is carried over to it. One request is under way at a time, and what was typed goes before all else.

import { ChangeSet } from "@codemirror/state";
import { reuseHunks } from "./hunk-format.js";
import { changesBetween, fileOf, parted, splicesOf } from "./splices.js";

const PAUSE = 300; // ms without a key, after which what was typed is sent
const LATEST = 2_000; // ms after which it is sent in any case
const MOST = 1_000; // splices of one request
const TRIES = 5; // with a newer revision each time

export class EditorSync {
  /**
   * `onText(changes)` carries what came from elsewhere out in the editor, `onChange()` hears that something here is another.
   * `onTyped(error)` hears why what was typed is not taken, or null once it is.
   */
  constructor({ path, api, view, onText, onChange, onTyped }) {
    Object.assign(this, { path, api, onText, onChange, onTyped });
    this.known = { view, ...fileOf(view.content ?? "") };
    this.unsent = ChangeSet.empty(this.known.text.length);
    this.inFlight = null;
    this.mayBeThere = false; // whether the server may have some of what is unsent: an answer was lost
    this.isOver = false;
    this.isWaiting = false; // for a connection
    this.refusal = null; // why what was typed is not taken
    this.last = Promise.resolve();
  }

  get isTyped() {
    return this.inFlight !== null || !this.unsent.empty;
  }

  /** From the text that is known to that of the editor. */
  get local() {
    return this.inFlight ? this.inFlight.compose(this.unsent) : this.unsent;
  }

  /** Whether something that is not sent yet was typed in a hunk. */
  touches({ start_line: start, end_line: end }) {
    const { text } = this.known;
    if (start > text.lines) return Boolean(this.local.touchesRange(text.length));
    return Boolean(this.local.touchesRange(text.line(start).from, text.line(Math.min(Math.max(start, end), text.lines)).to));
  }

  /** What was typed and kept when the page ended, a change of the text that is known: it goes before all else. */
  restore(changes) {
    this.unsent = changes;
    this.mayBeThere = true; // the page may have ended while it was sent
    this.onChange();
    this.send();
  }

  typed(changes) {
    this.unsent = this.unsent.compose(changes);
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.send(), PAUSE);
    this.latest ??= setTimeout(() => this.send(), LATEST);
    this.onChange();
  }

  /** Send what was typed. Resolves when that is done, also where the server did not take it: `onTyped` heard why. */
  send() {
    clearTimeout(this.pause);
    clearTimeout(this.latest);
    this.latest = null;
    return this.isTyped ? this.do(async () => {}).catch(() => {}) : this.last;
  }

  /** What the server says a file is, seen elsewhere: it is taken over if it is newer. */
  heard(view) {
    if (view.rev <= this.known.view.rev) return;
    this.#queue(async () => {
      if (view.rev > this.known.view.rev) this.#rebase(this.known.text, view);
    });
  }

  /** Look at the file anew, after something that was not done; where it cannot be read, nothing changes. */
  async refresh() {
    await this.#queue(() => this.#read()).catch(() => {});
  }

  /**
   * Do something with the file, once all that was typed is sent: `act(rev)` returns the new view, or nothing. Where the server
   * is at another revision, `isWanted()` says whether to do it all the same. Rejects with an ApiError.
   */
  do(act, isWanted = () => true) {
    return this.#queue(async () => {
      await this.#sendAll();
      for (let left = TRIES; ; left -= 1) {
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

  async #read() {
    this.#rebase(this.known.text, await this.api.file(this.path));
  }

  /** One thing after the other; without a connection it waits for one. */
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
      for (let left = TRIES; !this.unsent.empty; ) {
        try {
          await this.#sendSome();
          left = TRIES;
        } catch (error) {
          left -= 1;
          if (error.code !== "stale_revision" || left <= 0) throw error;
          await this.#reconcile(error.sent);
        }
      }
      this.#taken(null);
    } catch (error) {
      if (error.code !== "connection") this.#taken(error);
      throw error;
    }
  }

  #taken(error) {
    if (error === this.refusal) return;
    this.refusal = error;
    this.onTyped(error);
    this.onChange();
  }

  async #sendSome() {
    const [first, rest] = parted(this.unsent, MOST);
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

  /** Typed and taken back by the same hand: the same text, as far as it goes. */
  #moveOn(text, rest) {
    this.known = { ...this.known, text };
    this.unsent = rest;
    this.onChange();
  }

  /**
   * The server is further on. If an answer was lost, that may be because it has what was sent: then it is nearer to that than to
   * what was known.
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
    // `local` is `sent` and what was typed after it: that alone is unsent.
    this.unsent = changesBetween(here, this.unsent.apply(this.known.text));
    this.#rebase(here, view);
  }

  /** The server had the text `from`, on which `unsent` stands, and has another now. */
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
