// Which tab is active: the one that the address names, that the user chose, or the nearest one that is left. Keeps the
// address and the store in step.

import { hashOf, idOf } from "./review/routes.js";
import { localStore, sessionStore } from "./local-storage.js";

const TAB_ADDRESS = /^#\/tab\/(.+)$/;

export class Router {
  #requested = null; // the id of a tab that the list does not have yet
  #lastIndex = 0; // of the active tab in the list

  constructor({ state, store, review }) {
    Object.assign(this, { state, store, review });
    addEventListener("hashchange", () => this.followAddress());
  }

  /** Activate the tab that the address names, if there is one. */
  followAddress() {
    const place = idOf(location.hash);
    if (place && !this.review.has(place)) {
      this.review.open(place);
      return;
    }
    const id = place ?? TAB_ADDRESS.exec(location.hash)?.[1];
    if (this.state.tab(id)) this.#activate(id);
  }

  /** Activate a tab and give it the focus; one that is new, as soon as the list has it. */
  show(id) {
    this.#requested = id;
    if (!this.state.tab(id)) return;
    this.#requested = null;
    this.#activate(id, { focus: true });
    const address = this.#addressOf(id);
    if (location.hash !== address) location.hash = address;
  }

  /** The active tab, or null where there is none. Where the active one was closed, its neighbour takes its place. */
  resolve() {
    if (!this.store.get().hello) return null;
    if (this.#requested) this.show(this.#requested);
    const tabs = this.state.tabs();
    const index = tabs.findIndex((tab) => tab.id === this.store.get().active);
    if (index >= 0) this.#lastIndex = index;
    const tab = tabs[index] ?? this.#fallback(tabs);
    if (!tab) return null;
    if (index < 0) {
      this.#activate(tab.id);
      history.replaceState(null, "", this.#addressOf(tab.id));
    }
    this.#remember(tab.id);
    return tab;
  }

  #activate(id, { focus = false } = {}) {
    this.store.dispatch({ type: "page/show", tab: id, focus });
  }

  #fallback(tabs) {
    const last = sessionStore.get("active") ?? localStore.get("active");
    return tabs.find((tab) => tab.id === last) ?? tabs[Math.min(this.#lastIndex, tabs.length - 1)] ?? null;
  }

  /** After a reload this window shows the same tab again, and a new window the chat or agent that was shown last. */
  #remember(id) {
    if (sessionStore.get("active") !== id) sessionStore.set("active", id);
    if (!document.hidden && !this.review.has(id) && localStore.get("active") !== id) localStore.set("active", id);
  }

  #addressOf(id) {
    return this.review.has(id) ? hashOf(id) : `#/tab/${id}`;
  }
}
