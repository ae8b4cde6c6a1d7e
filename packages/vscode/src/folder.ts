// One `newel rpc` for each folder: started when needed, and anew with the same session if it has ended.

import { isAbsolute } from "node:path";
import {
  CommandFailed, ProcessEnded, RpcClient, RpcClientError,
  type ApprovalAsked, type RpcEvent, type RunResult, type SessionOpened, type StateData,
} from "newel-client";
import type { Activity } from "./text.ts";

/** The settings, as they are when the process starts. */
export interface Launch {
  path: string;
  arguments: readonly string[];
  model: string;
  approval: string;
}

export type Answer = { decision: "once" | "always" | "rule" | "no"; word?: string };

/** What a folder tells its window. */
export interface Listener {
  onEvent(event: RpcEvent): void;
  /** Answers a question. `signal` is aborted when the question is no longer asked. */
  onQuestion(asked: ApprovalAsked, signal: AbortSignal): Promise<Answer>;
  /** Called once for each process that ends by itself. */
  onCrash(error: Error): void;
  onState(state: StateData | undefined, activity: Activity): void;
  /** The session to use the next time; undefined for a new one. */
  onSession(id: string | undefined): void;
}

/** Newel is not where the settings say. */
export class NotInstalled extends Error {}

const SESSION_CODES: ReadonlySet<string> = new Set(["session_error", "session_in_use"]);

/** The words that start Newel. A path relative to the folder would let the folder choose what runs. */
export function command(launch: Launch): string[] {
  const path = launch.path.trim();
  if (!path || (!isAbsolute(path) && /[\\/]/.test(path)))
    throw new NotInstalled(`newel.path is “${path}”. Set it to a name on PATH or to an absolute path.`);
  return [path, "rpc"];
}

/** The options of `newel rpc`. */
export function options(launch: Launch, session: string | undefined): string[] {
  const chosen = [`--approve=${launch.approval}`];
  if (launch.model) chosen.push(`--model=${launch.model}`);
  if (session) chosen.push(`--session=${session}`);
  return [...launch.arguments, ...chosen];
}

/** The environment without what VS Code sets for its own processes: its sockets are not for the agent's commands. */
export function environment(given: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(given).filter(([name]) => !/^(VSCODE_|ELECTRON_)/.test(name)));
}

export class Folder {
  readonly path: string;
  readonly #launch: () => Launch;
  readonly #listener: Listener;
  #client: Promise<RpcClient> | undefined;
  #session: string | undefined;
  #state: StateData | undefined;
  #running = 0;
  #isStopping = false;
  #approval: string | undefined;
  #model: string | undefined;
  readonly #questions = new Map<string, AbortController>();

  constructor(path: string, launch: () => Launch, listener: Listener, session?: string) {
    this.path = path;
    this.#launch = launch;
    this.#listener = listener;
    this.#session = session;
  }

  get isRunning(): boolean {
    return this.#running > 0;
  }

  /** Whether the user has ended the run that is ending. */
  get isStopping(): boolean {
    return this.#isStopping;
  }

  get state(): StateData | undefined {
    return this.#state;
  }

  /** The running Newel, if there is one. */
  get running(): Promise<RpcClient> | undefined {
    return this.#client;
  }

  /** The running Newel, started if there is none. */
  client(): Promise<RpcClient> {
    if (!this.#client) {
      const starting = this.#start();
      this.#client = starting;
      starting.catch(() => {
        if (this.#client === starting) this.#client = undefined;
      });
    }
    return this.#client;
  }

  /** Send a prompt and wait for the end of its run. Aborting `signal` ends the run, its tools included. */
  async ask(text: string, signal?: AbortSignal): Promise<RunResult> {
    this.#running += 1;
    try {
      const client = await this.client();
      if (signal?.aborted) throw new CommandFailed("prompt", { code: "aborted", message: "It was stopped." });
      const stop = () => {
        this.#isStopping = true;
        void client.abort().catch(() => {}); // it has ended
      };
      signal?.addEventListener("abort", stop);
      this.#notify();
      try {
        return await client.run(text);
      } finally {
        signal?.removeEventListener("abort", stop);
      }
    } finally {
      this.#running -= 1;
      this.#isStopping = false;
      await this.refresh();
    }
  }

  /** End the run with the processes of its tools; one that is queued follows. False if nothing runs. */
  async stop(): Promise<boolean> {
    if (!this.#client) return false;
    const client = await this.#client;
    this.#isStopping = this.isRunning;
    return (await client.abort()).running;
  }

  async newSession(): Promise<SessionOpened> {
    return this.#opened(await (await this.client()).newSession());
  }

  async openSession(id: string): Promise<SessionOpened> {
    return this.#opened(await (await this.client()).switchSession(id));
  }

  async chooseModel(model: string): Promise<void> {
    await (await this.client()).model(model);
    this.#model = model;
    await this.refresh();
  }

  /** Use another approval mode from now on. It takes a new process, with the same session. */
  async chooseApproval(approval: string): Promise<void> {
    if (this.isRunning) throw new Error("Newel is working. Stop it first, or wait for its end.");
    this.#approval = approval;
    await this.close();
    await this.client();
  }

  /** Refresh the state and notify its readers. Starts nothing. */
  async refresh(): Promise<void> {
    try {
      const client = await this.#client;
      this.#state = await client?.state();
    } catch {
      // the crash was reported
    }
    if (this.#state) this.#remember(this.#state.messageCount > 0 ? this.#state.sessionId : undefined);
    this.#notify();
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await (await client?.catch(() => undefined))?.close();
  }

  async #opened(session: SessionOpened): Promise<SessionOpened> {
    await this.refresh();
    return session;
  }

  #remember(session: string | undefined): void {
    if (session === this.#session) return;
    this.#session = session;
    this.#listener.onSession(session);
  }

  async #start(): Promise<RpcClient> {
    try {
      return await this.#connect(this.#session);
    } catch (error) {
      const code = error instanceof ProcessEnded ? error.failure?.code : undefined;
      if (!this.#session || !code || !SESSION_CODES.has(code)) throw error;
      this.#listener.onEvent({ type: "error", code, message: `${(error as ProcessEnded).failure?.message} A new session begins.`, timestamp: "" });
      this.#remember(undefined);
      return await this.#connect(undefined);
    }
  }

  async #connect(session: string | undefined): Promise<RpcClient> {
    const given = this.#launch();
    const launch = { ...given, approval: this.#approval ?? given.approval, model: this.#model ?? given.model };
    const client = new RpcClient({
      command: command(launch), args: options(launch, session), cwd: this.path, env: environment(process.env),
    });
    const events = client.events();
    try {
      this.#state = await client.state();
    } catch (error) {
      await events.return();
      if (error instanceof RpcClientError && /cannot be started/.test(error.message)) throw new NotInstalled(`${error.message}.`);
      await client.close();
      throw error;
    }
    void this.#watch(client, events);
    this.#notify();
    return client;
  }

  async #watch(client: RpcClient, events: AsyncIterable<RpcEvent>): Promise<void> {
    try {
      for await (const event of events) {
        this.#listener.onEvent(event);
        if (event.type === "approval_request") void this.#question(client, event);
        if (event.type === "tool_execution_start" || event.type === "tool_execution_end") this.#withdraw(event.toolCallId);
        if (event.type === "agent_end") this.#withdraw();
      }
    } catch (error) {
      this.#client = undefined;
      this.#withdraw();
      this.#listener.onState(this.#state, "ended");
      this.#listener.onCrash(error as Error);
    }
  }

  async #question(client: RpcClient, asked: ApprovalAsked): Promise<void> {
    this.#withdraw(asked.toolCallId);
    const withdrawn = new AbortController();
    this.#questions.set(asked.toolCallId, withdrawn);
    this.#notify();
    let answer: Answer = { decision: "no" };
    try {
      answer = await this.#listener.onQuestion(asked, withdrawn.signal);
    } finally {
      if (!withdrawn.signal.aborted) {
        this.#questions.delete(asked.toolCallId);
        await client.approve(asked.toolCallId, answer.decision, answer.word).catch(() => {}); // the run has ended meanwhile
        this.#notify();
      }
    }
  }

  #withdraw(id?: string): void {
    for (const [asked, controller] of this.#questions) {
      if (id !== undefined && id !== asked) continue;
      this.#questions.delete(asked);
      controller.abort();
    }
  }

  #notify(): void {
    this.#listener.onState(this.#state, this.#questions.size > 0 ? "asking" : this.isRunning ? "working" : "idle");
  }
}
