// One conversation with Newel in a folder: starts `newel rpc`, prints what happens, and answers its questions. Knows nothing of VS Code.

import { CommandFailed, RpcClient, RpcClientError } from "../../newel-client/lib/index.js";
import { describeCall, oneLine, plain } from "./text.js";

/** @import { ApprovalAsked, RpcEvent, RunResult } from "../../newel-client/lib/index.js" */
/** @typedef {"once" | "always" | "no"} Decision */

/**
 * What a conversation needs of its user interface. `approve` asks about one call; undefined is no answer.
 *
 * @typedef {object} UI
 * @property {(text: string) => void} print
 * @property {(request: ApprovalAsked) => Promise<Decision | undefined>} approve
 * @property {() => void} changed the state has changed
 * @property {(message: string) => void} warn
 */

export class Conversation {
  /** @type {RpcClient | undefined} */
  #client;
  /** @type {string | undefined} the session to resume after the process has ended */
  #session;
  #running = 0;

  /** @param {{ command: string[], folder: string, args: string[] }} start @param {UI} ui */
  constructor(start, ui) {
    this.start = start;
    this.ui = ui;
  }

  get isRunning() {
    return this.#running > 0;
  }

  /** The running Newel; starts it if there is none, with the session of the last one. Throws `RpcClientError`. */
  async client() {
    if (this.#client) return this.#client;
    const args = [...this.start.args, ...(this.#session ? ["--session", this.#session] : [])];
    const client = new RpcClient({ command: this.start.command, args, cwd: this.start.folder });
    this.#client = client;
    void this.#follow(client);
    try {
      this.#session = (await client.state()).sessionId;
    } catch (error) {
      this.#client = undefined;
      await client.close();
      throw error;
    }
    return client;
  }

  /** Send a prompt, and wait for the end of its run. A second one meanwhile joins the run. @param {string} text */
  async ask(text) {
    const client = await this.client();
    this.ui.print(`\n\n> ${plain(text).split("\n").join("\n> ")}\n\n`);
    if (this.isRunning) {
      await client.steer(text);
      return;
    }
    this.#running += 1;
    this.ui.changed();
    try {
      this.#finish(await client.run(text));
    } finally {
      this.#running -= 1;
      this.ui.changed();
    }
  }

  /** End the run at once. */
  async abort() {
    if (this.#client && this.isRunning) await this.#client.abort();
  }

  /** @param {string} session its id, or its beginning */
  async open(session) {
    const client = await this.client();
    const opened = await client.switchSession(session);
    this.#session = opened.sessionId;
    for (const problem of opened.damage ?? []) this.ui.warn(oneLine(problem, 300));
    this.ui.print(`\n\n— session ${plain(opened.sessionId).slice(0, 8)}, ${opened.messageCount} messages —\n`);
    for (const message of (await client.messages(20)).messages) this.#printMessage(message);
  }

  async newSession() {
    this.#session = (await (await this.client()).newSession()).sessionId;
    this.ui.print("\n\n— new session —\n");
  }

  async close() {
    const client = this.#client;
    this.#client = undefined;
    await client?.close();
  }

  /** Print the events of a process, and answer its questions, until it ends. @param {RpcClient} client */
  async #follow(client) {
    try {
      for await (const event of client.events()) this.#handle(client, event);
    } catch (error) {
      if (this.#client !== client) return; // it did not start, and that was said
      this.#client = undefined;
      this.ui.warn(`Newel has ended. The next prompt starts it again, with the same session. ${oneLine(String(error), 300)}`);
      this.ui.changed();
    }
  }

  /** @param {RpcClient} client @param {RpcEvent} event */
  #handle(client, event) {
    switch (event.type) {
      case "message_update":
        if (event.assistantMessageEvent.type === "text_delta") this.ui.print(plain(event.assistantMessageEvent.delta));
        break;
      case "tool_execution_start":
        this.ui.print(`\n● ${describeCall(event.toolName, event.args)}\n`);
        break;
      case "tool_execution_end":
        if (event.isError) {
          this.ui.print(`  failed: ${oneLine(event.result)}\n`);
          this.ui.warn(`${oneLine(event.toolName)} failed: ${oneLine(event.result, 200)}`);
        }
        break;
      case "retry":
        this.ui.print("\n(the request is repeated)\n");
        break;
      case "error":
        this.ui.print(`\n! ${oneLine(event.message, 500)}\n`);
        break;
      case "approval_request":
        void this.#approve(client, event);
        break;
    }
  }

  /** @param {RpcClient} client @param {ApprovalAsked} request */
  async #approve(client, request) {
    this.ui.print(`\n? ${oneLine(request.label)}\n${plain(request.preview)}\n`);
    const decision = (await this.ui.approve(request)) ?? "no";
    this.ui.print(`  ${decision === "no" ? "declined" : "allowed"}\n`);
    try {
      await client.approve(request.toolCallId, decision);
    } catch (error) {
      if (!(error instanceof RpcClientError)) throw error; // the run was ended meanwhile
    }
  }

  /** @param {RunResult} result */
  #finish({ end }) {
    const cost = typeof end.cost === "number" ? `, ${end.cost.toFixed(4)} USD` : "";
    const tokens = end.usage ? ` (${end.usage.input} tokens in, ${end.usage.output} out${cost})` : "";
    this.ui.print(end.reason === "done" ? `\n${tokens}\n` : `\n${oneLine(end.message || end.reason, 500)}${tokens}\n`);
    if (end.reason === "error") this.ui.warn(`The run failed: ${oneLine(end.message || "no reason given", 300)}`);
  }

  /** @param {import("../../newel-client/lib/index.js").AppMessage} message */
  #printMessage(message) {
    if (message.role === "user" && typeof message.content === "string") this.ui.print(`\n> ${plain(message.content)}\n`);
    if (message.role === "assistant")
      for (const part of message.content) if (part.type === "text") this.ui.print(`\n${plain(part.text)}\n`);
  }
}

/** What went wrong, for people. @param {unknown} error */
export function explain(error) {
  if (error instanceof CommandFailed) return oneLine(error.failure.message, 500);
  const text = error instanceof Error ? error.message : String(error);
  const missing = /ENOENT/.test(text) ? " Install it (`uv tool install` in a checkout, or pipx), or set newel.path." : "";
  return oneLine(text, 500) + missing;
}
