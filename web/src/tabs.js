// The row of tabs: title, state, unread marker, close.

import { fill, h, icon, reconcile, setAttr } from "./dom.js";
import { formatNumber, plain, pluralize } from "./format.js";

const STATES = {
  idle: null,
  running: ["running", "Running"],
  waiting: ["waiting", "Question"],
  ready: ["ready", "Ready"],
  stopped: ["stopped", "Stopped"],
  completed: ["completed", "Completed"],
  failed: ["failed", "Failed"],
  queued: ["ready", "Queued"],
  cancelled: ["stopped", "Cancelled"],
};

const SIGNS = { completed: "check", failed: "close", stopped: "stop", waiting: "question" };

/** The badge of a tab's state; null for an idle chat. */
export function badge(tab, stopping) {
  const state = STATES[tab.status];
  if (!state) return null;
  const [kind, words] = stopping && tab.status === "running" ? ["running", "Stopping…"] : state;
  const sign = SIGNS[kind] ? icon(SIGNS[kind]) : h("span", { class: kind === "running" ? "spinner" : "ring", "aria-hidden": "true" });
  return h("span", { class: `badge ${kind}` }, sign, h("span", { class: "badge-words" }, words));
}

export class Tabs {
  constructor({ show, close, rename }) {
    Object.assign(this, { show, close, rename });
    this.list = h("div", {
      class: "tablist", role: "tablist", "aria-label": "Chats and agents",
      onkeydown: (event) => this.#key(event), onscroll: () => this.#showEnds(),
    });
    // For the mouse only: with the keyboard each tab is reached by the arrow keys.
    const scroller = (name, label, way) => h("button", {
      type: "button", class: "icon-button tab-scroll", "aria-hidden": "true", tabindex: "-1", title: label, hidden: true,
      onclick: () => this.list.scrollBy({ left: way * this.list.clientWidth * 0.8 }),
    }, icon(name));
    this.ends = [scroller("left", "Earlier tabs", -1), scroller("right", "Later tabs", 1)];
    this.el = h("div", { class: "tab-strip" }, this.ends[0], this.list, this.ends[1]);
    this.buttons = new Map();
    this.active = null; // the active tab's element, which is kept in view
    new ResizeObserver(() => {
      this.#reveal();
      this.#showEnds();
    }).observe(this.list);
  }

  update({ tabs, active, stopping }) {
    reconcile(this.list, this.buttons, tabs, {
      keyOf: (tab) => tab.id,
      create: (tab) => this.#create(tab),
      update: (button, tab) => this.#update(button, tab, { isActive: tab.id === active, stopping: stopping[tab.id] }),
      remove: (button) => {
        const hadFocus = button.el === document.activeElement;
        button.el.remove();
        if (hadFocus) this.buttons.get(active)?.el.focus();
      },
    });
    this.el.hidden = tabs.length === 0;
    const shown = this.buttons.get(active)?.el ?? null;
    if (shown !== this.active) {
      this.active = shown;
      this.#reveal();
    }
    this.#showEnds();
  }

  /** Show at which ends tabs are scrolled away. */
  #showEnds() {
    const { scrollLeft, scrollWidth, clientWidth } = this.list;
    const [start, end] = this.ends;
    start.hidden = scrollLeft < 2;
    end.hidden = scrollWidth - clientWidth - scrollLeft < 2;
  }

  #reveal() {
    this.active?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  #create({ id }) {
    const title = h("span", { class: "tab-title" });
    const state = h("span", { class: "tab-state" });
    // For the mouse only: the keyboard closes with Delete, and screen readers do not expect a button inside a tab.
    const close = h("span", {
      class: "tab-close", "aria-hidden": "true", title: "Close (Delete)",
      onclick: (event) => {
        event.stopPropagation();
        this.close(id);
      },
    }, icon("close"));
    const el = h(
      "button",
      {
        type: "button", role: "tab", id: `tab-${id}`, "aria-controls": "panel", "aria-keyshortcuts": "Delete F2",
        onclick: () => this.show(id),
        onauxclick: (event) => event.button === 1 && this.close(id),
        ondblclick: () => this.rename(id),
      },
      title, state, close,
    );
    return { el, title, state };
  }

  #update(button, tab, { isActive, stopping }) {
    const folder = tab.kind === "place" ? tab.folder : "";
    const key = JSON.stringify([tab.title, folder, tab.status, tab.isDirty, tab.waits, stopping, tab.isUnread, isActive]);
    if (key === button.shown) return;
    button.shown = key;
    fill(button.title, plain(tab.title), folder && h("span", { class: "tab-folder" }, ` ${folder}`));
    setAttr(button.el, "title", tab.hint || null);
    fill(button.state, tab.isDirty && h("span", { class: "dirty" }, h("span", { class: "sr-only" }, "not saved")),
      tab.waits > 0 && h("span", { class: "count", title: `${pluralize(tab.waits, "hunk")} to review` }, formatNumber(tab.waits), h("span", { class: "sr-only" }, " to review")),
      badge(tab, stopping), tab.isUnread && h("span", { class: "unread" }, h("span", { class: "sr-only" }, "unread")));
    setAttr(button.el, "aria-selected", isActive);
    button.el.tabIndex = isActive ? 0 : -1;
    if (isActive) this.#reveal();
  }

  #key(event) {
    const buttons = [...this.list.children];
    const at = buttons.indexOf(document.activeElement);
    if (at < 0) return;
    const id = buttons[at].id.slice("tab-".length);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (to !== undefined) buttons.at(to % buttons.length).focus();
    else if (event.key === "Delete") this.close(id);
    else if (event.key === "F2") this.rename(id);
    else return;
    event.preventDefault();
  }
}
