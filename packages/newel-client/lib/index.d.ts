import type { AgentEnd, AppMessage, Command, Replies, RpcEvent, RpcFailure } from "./protocol.js";
export type * from "./protocol.js";
/** A command without the fields that the client sets. */
export type Fields<Name extends keyof Replies> = Omit<Extract<Command, {
    type: Name;
}>, "type" | "id">;
export interface ClientOptions {
    /** Options of `newel rpc`, such as `["--approve", "ask"]`. */
    args?: readonly string[];
    /** The folder to work in; default: the current one. */
    cwd?: string;
    /** The environment of the process; default: this process's. */
    env?: NodeJS.ProcessEnv;
    /** Milliseconds to wait for a response to a command that does not wait for a run; 0 is no limit. */
    timeout?: number;
    /** The command that starts Newel; default: `["newel", "rpc"]`. */
    command?: readonly string[];
}
/** Root of the errors of the client. */
export declare class RpcClientError extends Error {
    constructor(message: string);
}
/** Newel refused a command, or failed at it. */
export declare class CommandFailed extends RpcClientError {
    readonly command: string;
    readonly failure: RpcFailure;
    constructor(command: string, failure: RpcFailure);
    /** For programs: `session_in_use`, `bad_request`… */
    get code(): string;
}
/** There was no response in time. The command may have been carried out, or may still be. */
export declare class CommandTimedOut extends RpcClientError {
}
/** The process has ended. */
export declare class ProcessEnded extends RpcClientError {
    readonly exitCode: number | null;
    /** The end of what it wrote to standard error. */
    readonly stderr: string;
    /** The error that it reported at its start, if any. */
    readonly failure: RpcFailure | undefined;
    constructor(exitCode: number | null, 
    /** The end of what it wrote to standard error. */
    stderr: string, 
    /** The error that it reported at its start, if any. */
    failure: RpcFailure | undefined);
}
/** The reader of a stream was too slow for its events to be kept. */
export declare class EventsLost extends RpcClientError {
}
/**
 * The events from the creation of the stream on. It ends when the client is closed; it throws `ProcessEnded` if the process ends
 * before, `EventsLost` if its reader is too slow.
 */
export declare class EventStream implements AsyncIterableIterator<RpcEvent> {
    #private;
    constructor(leave: (stream: EventStream) => void);
    /** Add an event for the reader. */
    put(event: RpcEvent): void;
    /** Let the reader read what there is, and then throw `error`. */
    end(error?: Error): void;
    next(): Promise<IteratorResult<RpcEvent>>;
    /** Called when a `for await` is left: take no more events. */
    return(): Promise<IteratorResult<RpcEvent>>;
    [Symbol.asyncIterator](): this;
}
/** A finished run: its last event, its messages from the prompt on, and the text of the last answer. */
export interface RunResult {
    end: AgentEnd;
    messages: AppMessage[];
    text: string;
}
/** A running `newel rpc`. `close` ends the process with all that its tools have started, also in the middle of a run. */
export declare class RpcClient {
    #private;
    /** Start Newel. Its own start takes a moment: the first command waits for it. */
    constructor(options?: ClientOptions);
    get pid(): number | undefined;
    /** A stream of the events from now on. Create it before the prompt, so that it misses none. */
    events(): EventStream;
    /**
     * Send a prompt and wait for the end of its run, whose events go to `onEvent`. Throws `CommandFailed` if it does not begin; a
     * run that fails has an `end` with the reason. An error of `onEvent` aborts the run.
     */
    run(text: string, options?: Omit<Fields<"prompt">, "text"> & {
        onEvent?: (event: RpcEvent) => void;
    }): Promise<RunResult>;
    prompt: (text: string, fields?: Omit<Fields<"prompt">, "text">) => Promise<import("./protocol.js").PromptAccepted>;
    steer: (text: string) => Promise<import("./protocol.js").QueuedForRun>;
    followUp: (text: string) => Promise<import("./protocol.js").QueuedForRun>;
    abort: () => Promise<import("./protocol.js").RunActivity>;
    stop: () => Promise<import("./protocol.js").RunActivity>;
    approve: (toolCallId: string, decision: "once" | "always" | "rule" | "no", word?: string) => Promise<import("./protocol.js").ApprovalAnswered>;
    state: () => Promise<import("./protocol.js").StateData>;
    messages: (limit?: number | null) => Promise<import("./protocol.js").MessagesData>;
    stats: () => Promise<import("./protocol.js").StatsData>;
    commands: () => Promise<import("./protocol.js").CommandsData>;
    model: (model: string) => Promise<import("./protocol.js").ModelData>;
    models: () => Promise<import("./protocol.js").ModelsData>;
    thinking: (level: Fields<"thinking">["level"]) => Promise<import("./protocol.js").ThinkingData>;
    agentMode: (mode: Fields<"agent_mode">["mode"]) => Promise<import("./protocol.js").AgentModeData>;
    compact: (instructions?: string) => Promise<import("./protocol.js").CompactData>;
    sessions: (fields?: Fields<"sessions">) => Promise<import("./protocol.js").SessionsData>;
    newSession: () => Promise<import("./protocol.js").SessionOpened>;
    switchSession: (session: string) => Promise<import("./protocol.js").SessionOpened>;
    nameSession: (name: string) => Promise<import("./protocol.js").NameData>;
    fork: (messageId?: string | null, before?: boolean) => Promise<import("./protocol.js").SessionOpened>;
    export: (fields?: Fields<"export">) => Promise<import("./protocol.js").ExportData>;
    changes: (limit?: number) => Promise<import("./protocol.js").ChangesData>;
    decide: (fields: Fields<"decide">) => Promise<import("./protocol.js").DecideData>;
    undo: (fields?: Fields<"undo">) => Promise<import("./protocol.js").UndoData>;
    /** Send a command and return the data of its response. `timeout` is in milliseconds, 0 for no limit. */
    request<Name extends keyof Replies>(name: Name, fields?: Fields<Name>, timeout?: number): Promise<Replies[Name]>;
    /** End the process: in good order, or else by force. Newel ends the processes of its tools, also if it is killed. */
    close(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}
/** Start Newel and wait until it answers. */
export declare function connect(options?: ClientOptions): Promise<RpcClient>;
