// The server of a folder: a child process that ends with this one. It holds the pipe of its standard input and ends when that
// is closed, which the system does even if this process is killed.

import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

import { LogTail } from "./log-tail.js";

/**
 * @typedef {import("./command.js").Command} Command
 * @typedef {{ origin: string, token: string, port: number }} Address
 */

const ADDRESS = /^(http:\/\/127\.0\.0\.1:(\d{1,5}))\/#token=([A-Za-z0-9_-]{32,256})$/;
const MAX_LINE = 64 * 1024; // characters of standard output without a line break
const POLL = 100; // ms between requests until the server answers
const REQUEST_TIMEOUT = 2_000;
const END_TIMEOUT = 4_000;
const TERM_TIMEOUT = 1_000;
const OUTPUT_TIMEOUT = 300; // for the output that was written before the end

/** The server did not start. */
export class StartError extends Error {}

export class Backend {
  #log = new LogTail();
  /** @type {import("node:child_process").ChildProcessWithoutNullStreams | null} */
  #process = null;
  #isStopping = false;
  /** @type {Promise<void> | null} */
  #ended = null;
  /** @type {Promise<void> | null} */
  #stopped = null;

  /**
   * `onEnd(reason)` is called when a server that was ready has ended by itself.
   * @param {{ command: Command, onEnd: (reason: string) => void, endTimeout?: number }} given  ms for the server to end by itself
   */
  constructor({ command, onEnd, endTimeout = END_TIMEOUT }) {
    this.command = command;
    this.onEnd = onEnd;
    this.endTimeout = endTimeout;
  }

  get log() {
    return this.#log.text;
  }

  get pid() {
    return this.#process?.pid;
  }

  /** Start the server and wait until it answers. Rejects with StartError; nothing runs then. @returns {Promise<Address>} */
  async start() {
    const { argv: [program = "", ...words], cwd, env, timeout } = this.command;
    const child = spawnGroup(program, words, { cwd, env });
    this.#process = child;
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.on("error", () => {}); // it has ended
    child.stderr.setEncoding("utf8").on("data", (text) => this.#log.add(text));
    const address = addressOf(child.stdout.setEncoding("utf8"), this.#log);
    let isReady = false;
    const end = endOf(child);
    this.#ended = end.then((reason) => {
      child.stdin.destroy();
      if (isReady && !this.#isStopping) this.onEnd(reason);
    });
    const deadline = new AbortController();
    try {
      const ready = address.then((found) => answer(found, deadline.signal));
      const found = await Promise.race([
        ready,
        end.then((reason) => Promise.reject(new StartError(`Newel ${reason}.`))),
        sleep(timeout, null, { signal: deadline.signal, ref: false }).then(() =>
          Promise.reject(new StartError(`Newel did not print its address within ${Math.round(timeout / 1000)} seconds.`))),
      ]);
      isReady = true;
      return found;
    } catch (error) {
      await this.stop();
      throw error instanceof StartError ? error : new StartError(String(error));
    } finally {
      deadline.abort();
    }
  }

  /** End the server and all its processes, at the latest after five seconds. */
  stop() {
    this.#isStopping = true;
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop() {
    const child = this.#process;
    if (!child?.pid) return;
    child.stdin.destroy();
    if (await isGone(child.pid, this.endTimeout)) return this.#ended ?? undefined;
    signalGroup(child.pid, "SIGTERM");
    if (!(await isGone(child.pid, TERM_TIMEOUT))) signalGroup(child.pid, "SIGKILL");
    await this.#ended;
  }
}

/**
 * Start a program in a process group of its own. Throws StartError where `spawn` throws; most errors come as an event.
 * @param {string} program @param {string[]} words @param {{ cwd: string, env: import("./command.js").Environment }} options
 */
function spawnGroup(program, words, options) {
  try {
    return spawn(program, words, { ...options, stdio: ["pipe", "pipe", "pipe"], detached: true });
  } catch (error) {
    throw new StartError(`Newel could not be started: ${error instanceof Error ? error.message : error}.`);
  }
}

/** How a process ended, as the rest of a sentence. @param {import("node:child_process").ChildProcess} child @returns {Promise<string>} */
function endOf(child) {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve(`could not be started: ${error.message}`));
    child.once("exit", async (code, signal) => {
      // Another process may keep the output open, but the last of it should be in the log.
      await Promise.race([new Promise((closed) => child.once("close", closed)), sleep(OUTPUT_TIMEOUT)]);
      resolve(signal ? `was ended by ${signal}` : `ended with exit code ${code}`);
    });
  });
}

/**
 * The address that a server prints. Other lines go to the log.
 * @param {import("node:stream").Readable} output @param {LogTail} log @returns {Promise<Address>}
 */
function addressOf(output, log) {
  return new Promise((resolve) => {
    let rest = "";
    output.on("data", (/** @type {string} */ text) => {
      const lines = (rest + text).split("\n");
      rest = (lines.pop() ?? "").slice(-MAX_LINE);
      for (const line of lines) {
        const found = ADDRESS.exec(line.trim());
        if (found) resolve({ origin: found[1] ?? "", port: Number(found[2]), token: found[3] ?? "" });
        else log.add(`${line}\n`);
      }
    });
  });
}

/** Wait until the server answers to its token. @param {Address} address @param {AbortSignal} signal @returns {Promise<Address>} */
async function answer(address, signal) {
  for (;;) {
    const timeout = AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT)]);
    const headers = { Authorization: `Bearer ${address.token}` };
    const response = await fetch(`${address.origin}/health`, { headers, signal: timeout }).catch(() => null);
    if (response?.ok) return address;
    await sleep(POLL, null, { signal });
  }
}

/** Whether a process group is gone within some ms. @param {number} group @param {number} timeout */
async function isGone(group, timeout) {
  const deadline = performance.now() + timeout;
  while (signalGroup(group, 0)) {
    if (performance.now() > deadline) return false;
    await sleep(20);
  }
  return true;
}

/** Whether a process group got a signal; 0 only asks. @param {number} group @param {NodeJS.Signals | 0} signal */
function signalGroup(group, signal) {
  try {
    process.kill(-group, signal);
    return true;
  } catch {
    return false;
  }
}
