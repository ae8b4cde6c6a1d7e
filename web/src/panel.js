// The panel: the view of the active tab. Views are made once and kept for as long as their tab is watched.

import { AgentView } from "./agent.js";
import { ChatView } from "./chat.js";
import { fill, h, isFocusLost, setAttr } from "./dom.js";
import { removedBy } from "./local-storage.js";

export class Panel {
  #views = new Map(); // by the id of a chat's or agent's tab
  #shownId = null;
  #focusRequests = 0; // that were granted

  /** `actions` are passed on to the views; `review` has those of places; `firstPage` is the view that is shown while no tab is open. */
  constructor({ actions, review, firstPage }) {
    Object.assign(this, { actions, review, firstPage });
    this.el = h("div", { id: "panel", class: "panel-frame" }, h("p", { class: "whole dim" }, "Connecting…"));
    addEventListener("storage", (event) => {
      const removed = removedBy(event);
      if (removed) for (const view of [firstPage, ...this.#views.values()]) view.composer?.dropRemoved(removed);
    });
    addEventListener("pagehide", () => this.view?.hidden());
  }

  /** The view that is shown; undefined before the first one. */
  get view() {
    if (this.#shownId === "") return this.firstPage;
    return this.review.has(this.#shownId) ? this.review.view(this.#shownId) : this.#views.get(this.#shownId);
  }

  update(model) {
    const { tab, isPlace, transcript, transcripts, changes, focusRequests } = model;
    const hadFocus = this.el.contains(document.activeElement);
    for (const id of this.#views.keys()) if (!transcripts[id] && id !== tab?.id) this.#views.delete(id);
    const id = tab?.id ?? "";
    const isMissing = tab && !isPlace && !this.#views.has(id);
    const needsFocus = (id !== this.#shownId || isMissing) && this.#mount(tab, isPlace);
    if (!tab) this.firstPage.update(model);
    else if (!isPlace) this.view.update({ tab, transcript, state: model, changes });
    // A button that went with its action, such as Retry, must not take the focus with it.
    const isLost = hadFocus && isFocusLost();
    if (needsFocus || isLost || focusRequests !== this.#focusRequests) this.view.focus();
    this.#focusRequests = focusRequests;
  }

  /** Put the view of a tab into the page; returns whether it has to take over the focus. */
  #mount(tab, isPlace) {
    this.view?.hidden();
    this.#shownId = tab?.id ?? "";
    if (tab && !isPlace && !this.#views.has(tab.id)) {
      const View = tab.kind === "agent" ? AgentView : ChatView;
      this.#views.set(tab.id, new View({ tab: tab.id, actions: this.actions }));
    }
    setAttr(this.el, "role", tab ? "tabpanel" : null);
    setAttr(this.el, "aria-labelledby", tab ? `tab-${tab.id}` : null);
    fill(this.el, this.view.el);
    this.view.shown();
    return isFocusLost();
  }
}
