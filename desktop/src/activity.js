// What the tabs of a server tell the user who looks elsewhere: a run that needs an answer, a run that has ended.

import { plain } from "./log-tail.js";

/**
 * @typedef {{ id: string, title: string, status: string, reason?: string }} Tab
 * @typedef {{ tab: string, title: string, body: string, isQuestion: boolean }} Notice
 */

const MAX_TITLE = 80;
const MAX_REASON = 200;
/** @type {Record<string, string>} */
const ENDINGS = {
  idle: "The answer is there.",
  ready: "The run has ended.",
  completed: "The contract is fulfilled.",
  stopped: "The agent has stopped.",
  failed: "The run has failed.",
};

const isBusy = (/** @type {string | undefined} */ status) => status === "running" || status === "waiting";

export class Activity {
  /** @type {Map<string, string> | null} the status by tab; null until the first list */
  #statuses = null;

  /** How many tabs wait for the user. */
  get waiting() {
    return [...(this.#statuses?.values() ?? [])].filter((status) => status === "waiting").length;
  }

  /**
   * Take a list of tabs; returns the notices of what has changed. The first list is only a start: the user knows it.
   * @param {Tab[]} tabs @returns {Notice[]}
   */
  update(tabs) {
    const before = this.#statuses;
    this.#statuses = new Map(tabs.map(({ id, status }) => [id, status]));
    if (!before) return [];
    return tabs.flatMap((tab) => {
      const was = before.get(tab.id);
      if (tab.status === "waiting" && was !== "waiting") return [notice(tab, "A question waits for your answer.", true)];
      const ending = ENDINGS[tab.status];
      if (!isBusy(was) || !ending) return [];
      return [notice(tab, tab.reason ? `${ending} ${shorten(tab.reason, MAX_REASON)}` : ending, false)];
    });
  }
}

/** @param {Tab} tab @param {string} body @param {boolean} isQuestion @returns {Notice} */
const notice = ({ id, title }, body, isQuestion) => ({ tab: id, title: shorten(title, MAX_TITLE) || "Newel", body, isQuestion });

/** @param {string} text @param {number} most */
function shorten(text, most) {
  const line = plain(text).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}
