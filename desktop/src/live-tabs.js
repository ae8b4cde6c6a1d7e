// Follows the tabs of a server over its socket (docs/protocol.md), as the page does, and reconnects until it is closed.

import { knowsToken } from "./server-login.js";

const FIRST_DELAY = 500; // ms
const LAST_DELAY = 10_000;
const MAX_FRAME = 8 * 1024 * 1024;

/** @typedef {import("./activity.js").Tab} Tab */

export class LiveTabs {
  #delay = FIRST_DELAY;
  #isClosed = false;
  /** @type {WebSocket | null} */
  #socket = null;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;

  /** @param {{ origin: string, token: string, onTabs: (tabs: Tab[]) => void }} given */
  constructor({ origin, token, onTabs }) {
    this.origin = origin;
    this.token = token;
    this.onTabs = onTabs;
    this.#connect();
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#socket?.close();
  }

  async #connect() {
    const isOurs = await knowsToken(this.origin, this.token).catch(() => false);
    if (this.#isClosed) return;
    if (isOurs) this.#open();
    else this.#connectLater();
  }

  #open() {
    const headers = { Authorization: `Bearer ${this.token}` };
    const socket = new WebSocket(`ws${this.origin.slice("http".length)}/ws`, { headers });
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      this.#delay = FIRST_DELAY;
      if (!this.#isClosed && typeof data === "string" && data.length <= MAX_FRAME) this.#receive(data);
    };
    socket.onerror = () => {}; // `onclose` follows
    socket.onclose = () => this.#isClosed || this.#connectLater();
  }

  #connectLater() {
    this.#timer = setTimeout(() => this.#connect(), this.#delay);
    this.#timer.unref();
    this.#delay = Math.min(LAST_DELAY, 2 * this.#delay);
  }

  /** @param {string} data */
  #receive(data) {
    const frame = parse(data);
    if ((frame?.type === "welcome" || frame?.type === "tabs") && Array.isArray(frame.tabs)) this.onTabs(frame.tabs.filter(isTab));
  }
}

/** @param {string} data @returns {any} */
function parse(data) {
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
}

/** @param {any} given @returns {given is Tab} */
const isTab = (given) => ["id", "title", "status"].every((name) => typeof given?.[name] === "string");
