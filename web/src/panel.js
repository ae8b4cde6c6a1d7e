// The panel: the view of the active tab. Views are made once and kept for as long as their tab is watched.

import { AgentView } from "./agent.js";
import { ChatView } from "./chat.js";
import { fill, h, setAttr } from "./dom.js";

export class Panel {
  #views = new Map(); // by the id of a chat's or agent's tab
  #shownId = null;
  #focusRequests = 0; // that were granted

  /** `actions` are passed on to the views; `review` has those of places; `empty` is shown while no tab is open. */
  constructor({ actions, review, empty }) {
    Object.assign(this, { actions, review, empty });
    this.el = h("div", { id: "panel", class: "panel-frame", role: "tabpanel" });
    addEventListener("pagehide", () => this.view?.hidden());
  }

  /** The view that is shown; undefined for none. */
  get view() {
    return this.review.has(this.#shownId) ? this.review.view(this.#shownId) : this.#views.get(this.#shownId);
  }

  update(model) {
    const { tab, isPlace, transcript, transcripts, changes, focusRequests } = model;
    for (const id of this.#views.keys()) if (!transcripts[id] && id !== tab?.id) this.#views.delete(id);
    const id = tab?.id ?? "";
    const isMissing = tab && !isPlace && !this.#views.has(id);
    const needsFocus = (id !== this.#shownId || isMissing) && this.#mount(tab, isPlace);
    if (!tab) return;
    if (!isPlace) this.view.update({ tab, transcript, state: model, changes });
    if (needsFocus || focusRequests !== this.#focusRequests) this.view.focus();
    this.#focusRequests = focusRequests;
  }

  /** Put the view of a tab into the page; returns whether it has to take over the focus. */
  #mount(tab, isPlace) {
    this.view?.hidden();
    this.#shownId = tab?.id ?? "";
    if (!tab) {
      this.el.removeAttribute("aria-labelledby");
      fill(this.el, this.empty);
      return false;
    }
    if (!isPlace && !this.#views.has(tab.id)) {
      const View = tab.kind === "agent" ? AgentView : ChatView;
      this.#views.set(tab.id, new View({ tab: tab.id, actions: this.actions }));
    }
    setAttr(this.el, "aria-labelledby", `tab-${tab.id}`);
    fill(this.el, this.view.el);
    this.view.shown();
    return document.activeElement === document.body;
  }
}
