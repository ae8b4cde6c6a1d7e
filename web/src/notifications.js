// System notifications: a run has ended or asks, and no window of this page is in front. They say the title of the tab and nothing of
// its conversation. The user switches them on; the browser asks for its permission only then.

import { plain } from "./format.js";
import { localStore } from "./local-storage.js";
import { isBusy } from "./store.js";

const FRONT = "newel-front"; // the lock that a window holds while it is in front
const SENDING = "newel-notification"; // the lock of the window that decides whether to notify
const SAME_MS = 5_000; // within which windows report the same change

const ENDS = { idle: "The run has ended.", ready: "The run has ended.", completed: "Contract fulfilled.", failed: "Failed.", stopped: "Stopped." };

/** What is worth a notification between two lists of tabs: [{id, title, words, key}]. */
export function newsOf(before, after) {
  const known = new Map(before.map((tab) => [tab.id, tab]));
  return after.flatMap((tab) => {
    const old = known.get(tab.id);
    if (!old || old.status === tab.status || !isBusy(old)) return [];
    const words = tab.status === "waiting" ? "Waiting for your answer." : ENDS[tab.status];
    return words ? [{ id: tab.id, title: plain(tab.title), words, key: `${tab.run} ${tab.status}` }] : [];
  });
}

export class Notifications {
  #tabs = [];
  #leaveFront = null;

  /** `show(id)` shows a tab; `changed()` is called when notifications were switched on or off. */
  constructor({ show, changed }) {
    Object.assign(this, { show, changed });
    for (const name of ["focus", "blur", "pageshow"]) addEventListener(name, () => this.#holdFront());
    document.addEventListener("visibilitychange", () => this.#holdFront());
    this.#holdFront();
  }

  /** "on", "off", or "blocked" by the browser, which it also is where the page came over an open network. */
  get state() {
    if (typeof Notification === "undefined" || !navigator.locks || Notification.permission === "denied") return "blocked";
    return localStore.get("notify") && Notification.permission === "granted" ? "on" : "off";
  }

  /** Switch them on or off, for all windows; resolves to the new state. */
  async toggle() {
    const isOn = this.state === "off" && (await Notification.requestPermission()) === "granted";
    localStore.set("notify", isOn || null);
    this.changed();
    return this.state;
  }

  /** Look at the tabs as the server lists them now. */
  update(tabs) {
    if (tabs === this.#tabs) return;
    const news = newsOf(this.#tabs, tabs);
    this.#tabs = tabs;
    if (this.state === "on") for (const each of news) this.#notify(each);
  }

  #holdFront() {
    const isFront = !document.hidden && document.hasFocus();
    if (!navigator.locks || isFront === Boolean(this.#leaveFront)) return;
    if (isFront) {
      const untilLeft = new Promise((leave) => {
        this.#leaveFront = leave;
      });
      navigator.locks.request(FRONT, { mode: "shared" }, () => untilLeft);
    } else {
      this.#leaveFront();
      this.#leaveFront = null;
    }
  }

  /** Notify, unless another window has: one decides after the other. */
  #notify({ id, title, words, key }) {
    return navigator.locks.request(SENDING, async () => {
      const { held } = await navigator.locks.query();
      const told = localStore.get(`told:${id}`);
      if (held.some(({ name }) => name === FRONT) || (told?.key === key && Date.now() - told.at < SAME_MS)) return;
      localStore.set(`told:${id}`, { key, at: Date.now() });
      const notification = new Notification(title, { body: words, tag: `newel ${id}` });
      notification.onclick = () => {
        window.focus();
        this.show(id);
        notification.close();
      };
    });
  }
}
