// The log of a tab: what was said, what is being said, what waits. It follows the end only when the reader is there.

import { h, iconButton, setAttr } from "./dom.js";
import { localStore } from "./local-storage.js";
import { AssistantView, PendingView, textOf, NoteView } from "./message.js";
import { ChangesView, withChanges } from "./review/changes.js";

const AT_END = 40; // px from the end that still count as being there
const NEAR_TOP = 300; // px from the top at which earlier messages are fetched

export class Conversation {
  /** `actions` of the tab: again, discard, withdraw, change, sendNow, older, review, openFile; `userView()` makes the view of a message from the user. */
  constructor({ tab, actions, userView, foot = null, empty = null }) {
    Object.assign(this, { tab, actions, userView, empty });
    this.views = new Map(); // by key, in the order of the page
    this.older = h("div", { class: "older", hidden: true }, "Fetching earlier messages…");
    this.list = h("div", { class: "entries" });
    this.content = h("div", { class: "column" }, this.older, empty, this.list, foot);
    this.log = h(
      "div",
      { class: "log", role: "log", "aria-live": "polite", "aria-label": "Conversation", tabindex: "0" },
      this.content,
    );
    this.pill = h(
      "button",
      { type: "button", class: "pill", hidden: true, onclick: () => this.scrollToEnd() },
      "New messages below",
    );
    this.end = iconButton("down", "Go to the end", () => this.scrollToEnd(), { class: "icon-button to-end", hidden: true });
    this.el = h("div", { class: "log-frame" }, this.log, this.pill, this.end);
    this.follows = true;
    this.log.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.observer = new ResizeObserver(() => this.follows && this.#jump());
  }

  /** Called after the view was put into the page: back to where the reader was. */
  shown() {
    this.observer.observe(this.log);
    this.observer.observe(this.content);
    this.#restore();
  }

  /** Called before the view is taken out of the page. */
  hidden() {
    this.observer.disconnect();
    clearTimeout(this.keeping);
    this.#keep();
  }

  /** `changes` are those of its runs, as changes.js has them. */
  update({ transcript, pending, changes }) {
    const height = this.follows ? 0 : this.log.scrollHeight;
    const items = [
      ...withChanges(transcript.live ? [...transcript.entries, this.#live(transcript.live)] : transcript.entries, changes),
      ...this.#waiting(transcript.queue).map((item) => [`pending:${item.id}`, item]),
      ...pending.map((message) => [`pending:${message.id}`, message]),
    ];
    this.#reconcile(items, transcript);
    setAttr(this.log, "aria-busy", transcript.live ? "true" : null);
    if (this.empty) this.empty.hidden = !transcript.ready || items.length > 0;
    this.older.hidden = !this.fetching;
    if (this.restoring && transcript.ready && items.length) this.#restore();
    if (this.follows) this.#jump();
    else if (this.log.scrollHeight > height && !this.fetching) this.pill.hidden = false;
    this.transcript = transcript;
  }

  #live(live) {
    if (live !== this.liveSource) {
      this.liveSource = live;
      this.liveItem = { kind: "live", ...live };
    }
    return this.liveItem;
  }

  #waiting(queue) {
    if (queue !== this.queueSource) {
      this.queueSource = queue;
      this.queueItems = queue.map(({ message, held }, index) => ({
        kind: "pending", id: message.id, message, text: textOf(message), state: held ? "held" : "queued", isFirst: index === 0, isWaiting: true,
      }));
    }
    return this.queueItems;
  }

  #reconcile(items, transcript) {
    const wanted = new Set(items.map(([key]) => key));
    for (const [key, view] of this.views) {
      if (wanted.has(key)) continue;
      view.el.remove();
      this.views.delete(key);
    }
    let before = null; // the element that the next one follows
    for (const [key, item] of items) {
      let view = this.views.get(key);
      if (!view) {
        view = this.#make(item);
        this.views.set(key, view);
      }
      view.update(item, transcript);
      const place = before ? before.nextSibling : this.list.firstChild;
      if (place !== view.el) this.list.insertBefore(view.el, place);
      before = view.el;
    }
  }

  #make(item) {
    switch (item.kind) {
      case "assistant":
      case "live":
        return new AssistantView();
      case "user":
        return this.userView();
      case "pending":
        return new PendingView(this.actions);
      case "changes":
        return new ChangesView(this.actions);
      default:
        return new NoteView();
    }
  }

  // -- where the reader is ------------------------------------------------------------------------

  scrollToEnd() {
    this.#follow(true);
    this.#jump();
    localStore.set(`place:${this.tab}`, null);
  }

  /** Whether the reader is at the end, which is when nothing has to lead there. */
  #follow(follows) {
    this.follows = follows;
    this.end.hidden = follows;
    if (follows) this.pill.hidden = true;
  }

  #jump() {
    this.log.scrollTop = this.log.scrollHeight;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.log;
    if (!this.log.isConnected || clientHeight === 0) return;
    const atEnd = scrollHeight - scrollTop - clientHeight < AT_END;
    if (atEnd && this.follows) return; // as it was, and mostly our own doing
    this.#follow(atEnd);
    if (scrollTop < NEAR_TOP && this.transcript?.more) this.#fetchOlder();
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => this.#keep(), 200);
  }

  #keep() {
    localStore.set(`place:${this.tab}`, this.follows ? null : this.#place());
  }

  /** The first entry that is in sight, and how far it is from the top. */
  #place() {
    const top = this.log.getBoundingClientRect().top;
    for (const [key, view] of this.views) {
      const box = view.el.getBoundingClientRect();
      if (box.bottom > top) return { key, offset: Math.round(box.top - top) };
    }
    return null;
  }

  #restore() {
    const place = localStore.get(`place:${this.tab}`);
    const view = place && this.views.get(place.key);
    this.restoring = Boolean(place) && !view;
    if (!place) {
      this.#follow(true);
      this.#jump();
    } else if (view) {
      this.follows = false;
      this.#hold(view.el, place.offset);
    }
  }

  #hold(element, offset) {
    const top = this.log.getBoundingClientRect().top;
    this.log.scrollTop += element.getBoundingClientRect().top - top - offset;
  }

  async #fetchOlder() {
    if (this.fetching) return;
    this.fetching = true;
    this.older.hidden = false;
    const place = this.#place();
    try {
      await this.actions.older();
    } finally {
      requestAnimationFrame(() => {
        const view = place && this.views.get(place.key);
        this.fetching = false;
        this.older.hidden = true;
        if (view && !this.follows) this.#hold(view.el, place.offset);
      });
    }
  }
}
