// What the tabs of a server tell the user who looks elsewhere: a run that needs an answer, a run that has ended.

import { plain } from "./log-tail.js";

/**
 * @typedef {{ id: string, title: string, status: string, run?: string | null, reason?: string }} Tab
 * @typedef {{ tab: string, title: string, body: string, isQuestion: boolean }} Notice
 */

const MAX_TITLE = 80;
const MAX_REASON = 200;
/** @type {Record<string, string>} */
const ENDINGS = {
  idle: "The answer is ready.",
  ready: "The run has ended.",
  completed: "The contract is fulfilled.",
  stopped: "The agent has stopped.",
  failed: "The run has failed.",
};

const isBusy = (/** @type {string} */ status) => status === "running" || status === "waiting";

/** Whether a run has started and ended between two lists. @param {Tab} tab @param {Tab} was */
const isNewRun = (tab, was) => Boolean(tab.run) && tab.run !== was.run;

export class Activity {
  /** @type {Map<string, Tab> | null} by id; null until the first list */
  #tabs = null;

  /** How many tabs wait for the user. */
  get waiting() {
    return [...(this.#tabs?.values() ?? [])].filter(({ status }) => status === "waiting").length;
  }

  /**
   * Take a list of tabs; returns the notices of what has changed. The first list is only a start: the user knows it.
   * @param {Tab[]} tabs @returns {Notice[]}
   */
  update(tabs) {
    const before = this.#tabs;
    this.#tabs = new Map(tabs.map((tab) => [tab.id, tab]));
    if (!before) return [];
    return tabs.flatMap((tab) => {
      const was = before.get(tab.id);
      if (tab.status === "waiting" && was?.status !== "waiting") return [notice(tab, "A question waits for your answer.", true)];
      const ending = ENDINGS[tab.status];
      if (!was || !ending || !(isBusy(was.status) || isNewRun(tab, was))) return [];
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
