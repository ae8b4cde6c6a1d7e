// The WebSocket: requests with replies, and automatic reconnection.

import { forgetServer, signIn, subprotocols } from "./page-login.js";

const FIRST_DELAY = 250; // ms before the first attempt to reconnect
const LAST_DELAY = 5_000;
const PING_INTERVAL = 25_000;
const TIMEOUT = 10_000; // ms without an answer to a ping, or without a connection
const MAX_BYTES = 8 * 2 ** 20; // of a message; the server closes the socket on a longer one, which would be repeated for ever

// Idempotent requests: repeated if the connection was lost before the reply.
const REPEATABLE = new Set([
  "send", "stop", "answer", "setServer", "setTool", "setModel", "setAgentMode", "renameTab", "getHistory", "getSessions", "getModels", "getPaths",
]);
// Requests that belong to one connection: never repeated, as their callers repeat them after reconnecting.
const PER_CONNECTION = new Set(["watch", "unwatch", "ping"]);

/** A failed request; `code` is the server's, or "connection". */
class RequestError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export class Connection {
  /** `onFrame(frame)` receives the server's frames that are no replies, `onLink(state)` "open", "lost" or "denied". */
  constructor({ url, onFrame, onLink }) {
    Object.assign(this, { url, onFrame, onLink });
    this.waiting = new Map(); // request id → {message, resolve, reject}
    this.count = 0;
    this.delay = FIRST_DELAY;
    this.socket = null;
    this.timer = null;
    this.attempt = null; // aborts the login before a socket is opened
    addEventListener("online", () => this.#check());
    document.addEventListener("visibilitychange", () => document.hidden || this.#check());
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  /** Open a socket, after the server has proved itself: it gets what waits. Browsers do not report why one was refused. */
  async connect() {
    clearTimeout(this.timer);
    this.timer = null;
    this.attempt?.abort();
    const attempt = new AbortController();
    this.attempt = attempt;
    const access = await signIn(attempt.signal);
    if (attempt !== this.attempt) return;
    this.attempt = null;
    if (access === "allowed") this.#open();
    else if (access === "denied") this.onLink("denied");
    else this.#connectLater();
  }

  #open() {
    const socket = new WebSocket(this.url, subprotocols());
    this.socket = socket;
    const connectTimer = setTimeout(() => socket.close(), TIMEOUT);
    socket.onmessage = (message) => this.#receive(JSON.parse(message.data));
    socket.onopen = () => clearTimeout(connectTimer);
    socket.onclose = () => {
      clearTimeout(connectTimer);
      this.#lost(socket);
    };
  }

  #connectLater() {
    this.timer = setTimeout(() => this.connect(), this.delay * (0.75 + Math.random() / 2));
    this.delay = Math.min(LAST_DELAY, this.delay * 1.7);
  }

  /** Reconnect now instead of later. */
  reconnectNow() {
    if (this.timer === null && !this.attempt) return;
    this.delay = FIRST_DELAY;
    this.connect();
  }

  /** Reconnect now, or find out whether the connection has survived: one that a sleeping machine lost looks open. */
  #check() {
    if (this.isOpen) this.#ping();
    else this.reconnectNow();
  }

  /** Send a request; resolves to the reply, rejects with a RequestError. */
  request(type, fields = {}) {
    this.count += 1;
    const message = { type, id: `r${this.count}`, ...fields };
    return new Promise((resolve, reject) => {
      if (!this.isOpen && PER_CONNECTION.has(type)) {
        reject(new RequestError("connection", "Not connected to Newel."));
        return;
      }
      this.waiting.set(message.id, { message, resolve, reject, wasSent: false });
      if (this.isOpen) this.#send(message.id);
    });
  }

  #send(id) {
    const asked = this.waiting.get(id);
    const text = JSON.stringify(asked.message);
    if (text.length * 3 > MAX_BYTES && new TextEncoder().encode(text).length > MAX_BYTES) {
      this.waiting.delete(id);
      asked.reject(new RequestError("too_long", "It is larger than 8 MB, with its files."));
      return;
    }
    asked.wasSent = true;
    this.socket.send(text);
  }

  #receive(frame) {
    if (frame.type === "welcome") this.#welcomed();
    const asked = frame.re && this.waiting.get(frame.re);
    if (asked) {
      this.waiting.delete(frame.re);
      if (frame.type === "error") asked.reject(new RequestError(frame.code, frame.message));
      else asked.resolve(frame);
      return;
    }
    this.onFrame(frame);
    if (frame.type === "welcome") {
      this.onLink("open"); // tabs are watched again first, then unanswered requests are repeated
      for (const [id, { wasSent }] of this.waiting) if (!wasSent) this.#send(id);
    }
  }

  #welcomed() {
    this.delay = FIRST_DELAY;
    clearInterval(this.pinging);
    this.pinging = setInterval(() => this.#ping(), PING_INTERVAL);
  }

  async #ping() {
    const socket = this.socket;
    const pingTimer = setTimeout(() => socket.close(), TIMEOUT);
    await this.request("ping").catch(() => {});
    clearTimeout(pingTimer);
  }

  #lost(socket) {
    if (socket !== this.socket) return;
    clearInterval(this.pinging);
    forgetServer();
    for (const [id, asked] of this.waiting) {
      const { message, reject, wasSent } = asked;
      if (!wasSent || REPEATABLE.has(message.type)) {
        asked.wasSent = false;
        continue;
      }
      this.waiting.delete(id);
      reject(new RequestError("connection", "The connection was lost before Newel replied."));
    }
    this.onLink("lost");
    this.#connectLater();
  }
}
