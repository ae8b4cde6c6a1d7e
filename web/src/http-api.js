// Requests to the server's HTTP API, repeated while it cannot be reached.

import { request } from "./page-login.js";
import { eventsOf } from "./server-sent-events.js";

const MAX_ATTEMPTS = 5;
const FIRST_RETRY_DELAY = 300; // ms before the first retry of a request whose answer was lost
const SLOW_TIMEOUT = 4_000; // ms without an answer after which the server counts as unreachable
const REQUEST_TIMEOUT = 20_000; // ms after which the request is repeated
const RECONNECT_INTERVAL = 1_000; // ms between attempts to reach the server

/**
 * A failed request: `code` is the server's, or "connection", with `status` 0. `wasLost`: the answer to an earlier attempt was
 * lost, so that attempt may have succeeded.
 */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const refusal = ({ status }, { error }) => new ApiError(status, error?.code ?? "unknown", error?.message ?? `The server answered ${status}.`);

export class HttpApi {
  #base;

  /** Paths are below `base`. `onLink(isUp)` is called when the server becomes unreachable, and when it answers again. */
  constructor(base, { onLink = () => {} } = {}) {
    this.#base = base;
    this.onLink = onLink;
    this.isUp = true;
    this.sleepers = new Set();
  }

  /** Repeat pending requests now: the server is probably reachable again. */
  wake() {
    for (const wake of this.sleepers) wake();
  }

  /** Resolves when it is time for the next attempt to reach the server. */
  untilUp = () => this.#sleep(RECONNECT_INTERVAL);

  /** `how`: {again, isQuick, signal, as}: whether to repeat it, whether a healthy server answers quickly, what ends it, how to read the answer. */
  get(path, query = {}, how = {}) {
    const words = new URLSearchParams(query).toString();
    return this.#ask(`${this.#base}${path}${words && `?${words}`}`, { method: "GET" }, how);
  }

  post(path, body, how = {}) {
    const init = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    return this.#ask(`${this.#base}${path}`, init, how);
  }

  /**
   * Read a stream of events to its end: `onEvent(name, data, id)`. Rejects with an ApiError if it is refused. Not by an EventSource, which
   * could not send the page's proof.
   */
  async stream(path, query, onEvent, signal) {
    const answer = await request(`${this.#base}${path}?${new URLSearchParams(query)}`, { headers: { Accept: "text/event-stream" }, signal });
    if (!answer.ok) throw refusal(answer, await answer.json().catch(() => ({})));
    for await (const { name, data, id } of eventsOf(answer.body)) onEvent(name, JSON.parse(data), id);
  }

  async #ask(url, init, { again = true, isQuick = false, signal, as = "json" } = {}) {
    const tries = again ? MAX_ATTEMPTS : 1;
    for (let left = tries, wait = FIRST_RETRY_DELAY; ; left -= 1, wait *= 2) {
      const slow = isQuick ? setTimeout(() => this.#link(false), SLOW_TIMEOUT) : null;
      try {
        const answer = await request(url, { ...init, signal: isQuick ? AbortSignal.timeout(REQUEST_TIMEOUT) : signal });
        const body = await answer[answer.ok ? as : "json"]().catch((error) => {
          if (answer.ok) throw error; // the answer was cut off
          return {};
        });
        this.#link(true);
        if (answer.ok) return body;
        throw Object.assign(refusal(answer, body), { wasLost: left < tries });
      } catch (error) {
        if (error instanceof ApiError || signal?.aborted) throw error;
        this.#link(false);
        if (left <= 1) throw new ApiError(0, "connection", "Not connected to Newel.");
        await this.#sleep(wait);
      } finally {
        clearTimeout(slow);
      }
    }
  }

  /** Sleep for `time` ms, or until the server is reachable again. */
  #sleep(time) {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.sleepers.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, time);
      this.sleepers.add(wake);
    });
  }

  #link(isUp) {
    if (isUp === this.isUp) return;
    this.isUp = isUp;
    if (isUp) this.wake();
    this.onLink(isUp);
  }
}
