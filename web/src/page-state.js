// The state of the page: applies the server's frames to the store, subscribes to the tabs that are shown, and derives what
// the view needs. It knows no element of the page.

import { forgetDraftFiles } from "./draft-files.js";
import { forgetTabs, localStore } from "./local-storage.js";
import { setServerTime } from "./server-clock.js";
import { isHostAway, needsAnswer } from "./store.js";
import { emptyTranscript } from "./transcript.js";

const MAX_WATCHED = 8; // tabs whose transcripts are kept up to date, so that going back to one shows it at once

export class PageState {
  #watched = []; // ids of tabs, the one shown last first
  #readAt = new Map(); // tab id → its activity when it was shown last; a copy of what the browser keeps
  #wasConnected = false;
  #serverTabs = null; // as they were reconciled last

  /** `onConnect({isFirst})` is called when the server has sent its state, `onDenied()` when it refuses this page. */
  constructor({ store, connection, review, onConnect, onDenied }) {
    Object.assign(this, { store, connection, review, onConnect, onDenied });
    addEventListener("storage", () => this.#readAt.clear()); // another window showed a tab
  }

  // -- from the server ------------------------------------------------------------------------------

  applyFrame(frame) {
    if (frame.type === "review") {
      this.review.ledgerChanged(frame.revs);
      return;
    }
    if (frame.type === "welcome") setServerTime(frame.now);
    const wasAway = isHostAway(this.store.get().hello?.host);
    this.store.dispatch(frame);
    if (frame.type === "host" && wasAway && !isHostAway(frame.host)) this.review.hostReconnected();
  }

  setLink(link) {
    this.store.dispatch({ type: "page/link", link });
    if (link === "denied") this.onDenied();
    if (link === "lost") this.review.disconnected();
    if (link !== "open") return;
    for (const id of this.#watched) this.#watch(id);
    this.review.connected(this.store.get().hello.project);
    this.onConnect({ isFirst: !this.#wasConnected });
    this.#wasConnected = true;
  }

  #watch(id) {
    const transcript = this.store.get().transcripts[id];
    if (!transcript) return;
    const position = transcript.run ? { run: transcript.run, after: transcript.seq } : {};
    this.connection.request("watch", { tab: id, ...position }).catch(() => {}); // lost: repeated after reconnecting
  }

  // -- the tab that is shown ------------------------------------------------------------------------

  /** Record that a tab is on the screen: its transcript is kept up to date, and it counts as read. */
  visit(tab) {
    this.#reconcileTabs();
    if (!tab || this.review.has(tab.id)) return;
    this.#keepWatched(tab.id);
    if (document.hidden || this.#lastRead(tab.id) >= tab.activity) return;
    this.#readAt.set(tab.id, tab.activity);
    localStore.set(`seen:${tab.id}`, tab.activity);
  }

  #reconcileTabs() {
    const { hello, tabs } = this.store.get();
    if (!hello || tabs === this.#serverTabs) return; // without a welcome the list of tabs is not known to be empty
    this.#serverTabs = tabs;
    this.review.tabsChanged();
    const ids = new Set(tabs.map((tab) => tab.id));
    forgetDraftFiles(forgetTabs(ids));
    this.#watched = this.#watched.filter((id) => ids.has(id));
  }

  #keepWatched(id) {
    if (this.#watched[0] === id && this.store.get().transcripts[id]) return;
    const isNew = !this.#watched.includes(id);
    this.#watched = [id, ...this.#watched.filter((other) => other !== id)];
    this.store.dispatch({ type: "page/watch", tab: id });
    if (isNew && this.connection.isOpen) this.#watch(id);
    for (const evicted of this.#watched.splice(MAX_WATCHED)) {
      this.store.dispatch({ type: "page/forget", tab: evicted });
      if (this.connection.isOpen) this.connection.request("unwatch", { tab: evicted }).catch(() => {});
    }
  }

  #lastRead(id) {
    if (!this.#readAt.has(id)) this.#readAt.set(id, localStore.get(`seen:${id}`) ?? 0);
    return this.#readAt.get(id);
  }

  // -- for the view -----------------------------------------------------------------------------------

  /** The tabs of the server, and behind them the files and other places that are open here. */
  tabs() {
    const tabs = this.store.get().tabs.map((tab) => ({ ...tab, waits: this.review.pendingHunks(tab.session) }));
    return [...tabs, ...this.review.tabs()];
  }

  tab(id) {
    return this.tabs().find((tab) => tab.id === id) ?? null;
  }

  /** What the page shows while `tab` is the active one. */
  viewModel(tab) {
    const state = this.store.get();
    const isPlace = this.review.has(tab?.id);
    const isQuestionOpen = ({ id, status }) => needsAnswer({ status }, state.transcripts[id]);
    return {
      ...state,
      tab,
      isPlace,
      tabs: this.tabs().map((each) => ({
        ...each,
        status: isQuestionOpen(each) ? "waiting" : each.status,
        isUnread: each.id !== tab?.id && each.activity > this.#lastRead(each.id),
      })),
      transcript: state.transcripts[tab?.id] ?? emptyTranscript(),
      changes: tab && !isPlace ? this.review.changesOf(tab.session, state.hello) : [],
      asking: state.tabs.filter(isQuestionOpen),
      reviewQuestions: this.review.questions,
      hasHiddenReviewQuestion: this.review.hasHiddenQuestion,
    };
  }
}
