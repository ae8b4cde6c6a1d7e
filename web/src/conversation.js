// A tab's transcript: finished messages, the growing one, queued ones. It scrolls along only while the reader is at the end.

import { h, iconButton, reconcile, setAttr } from "./dom.js";
import { localStore } from "./local-storage.js";
import { keptAtEnd } from "./transcript.js";
import { AssistantView, KeptView, PendingView, textOf, NoteView } from "./message.js";
import { withChanges } from "./review/changes.js";
import { ChangesView } from "./run-changes.js";

const AT_END = 40; // px from the end within which the reader counts as being there
const NEAR_TOP = 300; // px from the top at which earlier messages are loaded

export class Conversation {
  /** `actions` of the tab: resend, discard, bringBack, loadEarlier, loadSubagent, reviewRun, undoRun, redoRun, openFile; `userView()` makes the view of a user's message. */
  constructor({ tab, actions, userView, foot = null, empty = null }) {
    Object.assign(this, { tab, actions, userView, empty });
    this.views = new Map(); // by key, in document order
    this.loadingNote = h("div", { class: "older", hidden: true }, "Loading earlier messages…");
    this.list = h("div", { class: "entries" });
    this.content = h("div", { class: "column" }, this.loadingNote, empty, this.list, foot);
    this.log = h(
      "div",
      { class: "log", role: "log", "aria-live": "polite", "aria-label": "Conversation", tabindex: "0" },
      this.content,
    );
    this.pill = h(
      "button",
      { type: "button", class: "pill", hidden: true, onclick: () => this.scrollToEnd() },
      "New messages",
    );
    this.end = iconButton("down", "Scroll to end", () => this.scrollToEnd(), { class: "icon-button to-end", hidden: true });
    this.el = h("div", { class: "log-frame" }, this.log, this.pill, this.end);
    this.follows = true;
    this.log.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    this.observer = new ResizeObserver(() => this.follows && this.#scrollDown());
  }

  /** Called after the view is added to the page: restores the scroll position. */
  shown() {
    this.observer.observe(this.log);
    this.observer.observe(this.content);
    this.#restorePosition();
  }

  /** Called before the view is removed from the page. */
  hidden() {
    this.observer.disconnect();
    clearTimeout(this.saveTimer);
    this.#savePosition();
  }

  /** `pending` are the messages at its end that no run has taken yet, `changes` those of its runs, as changes.js lists them; `isResting`: nothing runs or waits to run. */
  update({ transcript, pending, changes, isResting = false }) {
    const height = this.follows ? 0 : this.log.scrollHeight;
    const items = [
      ...this.#entries(transcript, changes),
      ...(isResting ? this.#kept(keptAtEnd(transcript)) : []),
      ...pending.map((each) => [`pending:${each.id ?? each.message.id}`, each.message ? { kind: "pending", state: "sending", text: textOf(each.message) } : each]),
    ];
    this.#reconcile(items, transcript);
    setAttr(this.log, "aria-busy", transcript.live ? "true" : null);
    if (this.empty) this.empty.hidden = !transcript.ready || items.length > 0;
    this.loadingNote.hidden = !this.isLoading;
    if (this.isRestoring && transcript.ready && items.length) this.#restorePosition();
    if (this.follows) this.#scrollDown();
    else if (this.log.scrollHeight > height && !this.isLoading) this.pill.hidden = false;
    this.transcript = transcript;
  }

  #entries(transcript, changes) {
    const entries = transcript.live ? [...transcript.entries, this.#liveEntry(transcript.live)] : transcript.entries;
    if (entries.length || !transcript.ready) return withChanges(entries, changes);
    return changes.map((change) => [change.checkpoint_id, { kind: "changes", change }]); // it went back to its beginning
  }

  /** What can be brought back at the end of the conversation. */
  #kept(ids) {
    if (ids !== this.keptSource) [this.keptSource, this.keptItem] = [ids, { kind: "kept", ids }];
    return ids.length ? [["kept", this.keptItem]] : [];
  }

  #liveEntry(live) {
    if (live !== this.liveSource) {
      this.liveSource = live;
      this.liveItem = { kind: "live", ...live };
    }
    return this.liveItem;
  }

  #reconcile(items, transcript) {
    reconcile(this.list, this.views, items, {
      keyOf: ([key]) => key, create: ([, item]) => this.#createView(item), update: (view, [, item]) => view.update(item, transcript),
    });
  }

  #createView(item) {
    switch (item.kind) {
      case "assistant":
      case "live":
        return new AssistantView(this.actions);
      case "user":
        return this.userView();
      case "pending":
        return new PendingView(this.actions);
      case "kept":
        return new KeptView(this.actions);
      case "changes":
        return new ChangesView(this.actions);
      default:
        return new NoteView();
    }
  }

  /** Edit the user's last message; returns whether there is one. */
  editLast() {
    const view = [...this.views.values()].findLast((each) => each.beginEdit);
    view?.beginEdit();
    return Boolean(view);
  }

  // -- where the reader is ------------------------------------------------------------------------

  scrollToEnd() {
    this.#follow(true);
    this.#scrollDown();
    localStore.set(`place:${this.tab}`, null);
  }

  /** Set whether the reader is at the end, where no button has to lead there. */
  #follow(follows) {
    this.follows = follows;
    this.end.hidden = follows;
    if (follows) this.pill.hidden = true;
  }

  #scrollDown() {
    this.log.scrollTop = this.log.scrollHeight;
  }

  #onScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.log;
    if (!this.log.isConnected || clientHeight === 0) return;
    const atEnd = scrollHeight - scrollTop - clientHeight < AT_END;
    if (atEnd && this.follows) return; // unchanged, and mostly our own scrolling
    this.#follow(atEnd);
    if (scrollTop < NEAR_TOP && this.transcript?.more) this.#loadEarlier();
    clearTimeout(this.saveTimer);
    this.saveTimer = setTimeout(() => this.#savePosition(), 200);
  }

  #savePosition() {
    localStore.set(`place:${this.tab}`, this.follows ? null : this.#position());
  }

  /** The first visible entry and its distance from the top. */
  #position() {
    const top = this.log.getBoundingClientRect().top;
    for (const [key, view] of this.views) {
      const box = view.el.getBoundingClientRect();
      if (box.bottom > top) return { key, offset: Math.round(box.top - top) };
    }
    return null;
  }

  #restorePosition() {
    const place = localStore.get(`place:${this.tab}`);
    const view = place && this.views.get(place.key);
    this.isRestoring = Boolean(place) && !view;
    if (!place) {
      this.#follow(true);
      this.#scrollDown();
    } else if (view) {
      this.follows = false;
      this.#scrollTo(view.el, place.offset);
    }
  }

  #scrollTo(element, offset) {
    const top = this.log.getBoundingClientRect().top;
    this.log.scrollTop += element.getBoundingClientRect().top - top - offset;
  }

  async #loadEarlier() {
    if (this.isLoading) return;
    this.isLoading = true;
    this.loadingNote.hidden = false;
    const place = this.#position();
    try {
      await this.actions.loadEarlier();
    } finally {
      requestAnimationFrame(() => {
        const view = place && this.views.get(place.key);
        this.isLoading = false;
        this.loadingNote.hidden = true;
        if (view && !this.follows) this.#scrollTo(view.el, place.offset);
      });
    }
  }
}
