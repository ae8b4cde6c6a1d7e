// A client of `newel rpc`: drives Newel, a coding agent, in a process of its own. See ../README.md.
import { spawn } from "node:child_process";
const TIMEOUT_MS = 30_000;
const GRACE_MS = 5_000;
const STDERR_CHARACTERS = 8_192;
const MAX_LINE = 256 * 1024 * 1024;
/** Bytes of a command that Newel reads. */
const MAX_COMMAND = 64 * 1024 * 1024;
const MAX_EVENTS = 100_000;
/** The commands that wait for runs before them, so that no time limit suits them. */
const TAKING_TURNS = new Set(["compact", "new_session", "switch_session", "fork", "undo"]);
// -- errors ------------------------------------------------------------------------------------------
/** Root of the errors of the client. */
export class RpcClientError extends Error {
    constructor(message) {
        super(message);
        this.name = new.target.name;
    }
}
/** Newel refused a command, or failed at it. */
export class CommandFailed extends RpcClientError {
    command;
    failure;
    constructor(command, failure) {
        super(`${command}: ${failure.message}`);
        this.command = command;
        this.failure = failure;
    }
    /** For programs: `session_in_use`, `bad_request`… */
    get code() {
        return this.failure.code;
    }
}
/** There was no response in time. The command may have been carried out, or may still be. */
export class CommandTimedOut extends RpcClientError {
}
/** The process has ended. */
export class ProcessEnded extends RpcClientError {
    exitCode;
    stderr;
    failure;
    constructor(exitCode, 
    /** The end of what it wrote to standard error. */
    stderr, 
    /** The error that it reported at its start, if any. */
    failure) {
        const said = failure?.message ?? stderr.trim();
        super(`newel rpc ended with exit code ${exitCode}.${said ? ` It said: ${said}` : ""}`);
        this.exitCode = exitCode;
        this.stderr = stderr;
        this.failure = failure;
    }
}
/** The reader of a stream was too slow for its events to be kept. */
export class EventsLost extends RpcClientError {
}
// -- events ------------------------------------------------------------------------------------------
/**
 * The events from the creation of the stream on. It ends when the client is closed; it throws `ProcessEnded` if the process ends
 * before, `EventsLost` if its reader is too slow.
 */
export class EventStream {
    #waiting = [];
    #events = [];
    #next = 0;
    #end;
    #leave;
    constructor(leave) {
        this.#leave = leave;
    }
    /** Add an event for the reader. */
    put(event) {
        if (this.#end)
            return;
        const reader = this.#waiting.shift();
        if (reader)
            reader.resolve({ value: event, done: false });
        else if (this.#events.length - this.#next >= MAX_EVENTS)
            this.end(new EventsLost(`More than ${MAX_EVENTS} events have not been read. Read them faster.`));
        else
            this.#events.push(event);
    }
    /** Let the reader read what there is, and then throw `error`. */
    end(error) {
        if (this.#end)
            return;
        this.#leave(this);
        this.#end = { error };
        for (const reader of this.#waiting.splice(0)) {
            if (error)
                reader.reject(error);
            else
                reader.resolve({ value: undefined, done: true });
        }
    }
    next() {
        const event = this.#events[this.#next];
        if (event) {
            this.#next += 1;
            if (this.#next > 1_000 && this.#next * 2 > this.#events.length) {
                this.#events = this.#events.slice(this.#next);
                this.#next = 0;
            }
            return Promise.resolve({ value: event, done: false });
        }
        if (this.#end?.error)
            return Promise.reject(this.#end.error);
        if (this.#end)
            return Promise.resolve({ value: undefined, done: true });
        return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
    }
    /** Called when a `for await` is left: take no more events. */
    return() {
        this.#events = [];
        this.#next = 0;
        this.end();
        return Promise.resolve({ value: undefined, done: true });
    }
    [Symbol.asyncIterator]() {
        return this;
    }
}
/** A running `newel rpc`. `close` ends the process with all that its tools have started, also in the middle of a run. */
export class RpcClient {
    #process;
    #timeout;
    #pending = new Map();
    #streams = new Set();
    #lastId = 0;
    #stderr = "";
    #failure;
    #hasAnswered = false;
    #isClosing = false;
    #isBroken = false;
    #ended;
    #exit;
    /** Start Newel. Its own start takes a moment: the first command waits for it. */
    constructor(options = {}) {
        const [program, ...words] = options.command ?? ["newel", "rpc"];
        if (program === undefined)
            throw new RpcClientError("The command is empty.");
        this.#timeout = options.timeout ?? TIMEOUT_MS;
        this.#process = spawn(program, [...words, ...(options.args ?? [])], {
            cwd: options.cwd,
            env: options.env ?? process.env,
            stdio: "pipe",
            detached: true, // Ctrl+C is for this program, which then closes the client
        });
        this.#exit = new Promise((resolve) => {
            this.#process.once("error", (error) => this.#finish(new RpcClientError(`${program} cannot be started: ${error.message}`), resolve));
            this.#process.once("close", (code) => this.#finish(new ProcessEnded(code, this.#stderr, this.#failure), resolve));
        });
        this.#process.stdin.on("error", () => { }); // `close` tells the cause
        this.#process.stderr.setEncoding("utf8").on("data", (text) => {
            this.#stderr = (this.#stderr + text).slice(-STDERR_CHARACTERS);
        });
        this.#readLines();
    }
    get pid() {
        return this.#process.pid;
    }
    // -- the conversation ------------------------------------------------------------------------------
    /** A stream of the events from now on. Create it before the prompt, so that it misses none. */
    events() {
        const stream = new EventStream((left) => this.#streams.delete(left));
        if (this.#ended)
            stream.end(this.#ended);
        else
            this.#streams.add(stream);
        return stream;
    }
    /**
     * Send a prompt and wait for the end of its run, whose events go to `onEvent`. Throws `CommandFailed` if it does not begin; a
     * run that fails has an `end` with the reason. An error of `onEvent` aborts the run.
     */
    async run(text, options = {}) {
        const { onEvent, ...fields } = options;
        const events = this.events();
        let isRunning = false;
        try {
            const { messageId } = await this.prompt(text, fields);
            const messages = [];
            for await (const event of events) {
                if (event.type === "message_end" && (messages.length > 0 || event.message.id === messageId))
                    messages.push(event.message);
                if (event.type === "error" && event.code === "prompt_dropped" && event.message.includes(messageId))
                    throw new CommandFailed("prompt", { code: event.code, message: event.message });
                if (messages.length === 0)
                    continue;
                isRunning = event.type !== "agent_end";
                onEvent?.(event);
                if (event.type === "agent_end")
                    return { end: event, messages, text: textOf(messages) };
            }
        }
        catch (error) {
            if (isRunning)
                await this.abort().catch(() => { }); // the first error counts
            throw error;
        }
        finally {
            await events.return();
        }
        throw new RpcClientError("The client was closed during the run.");
    }
    prompt = (text, fields = {}) => this.request("prompt", { text, ...fields });
    steer = (text) => this.request("steer", { text });
    followUp = (text) => this.request("follow_up", { text });
    abort = () => this.request("abort");
    stop = () => this.request("stop");
    approve = (toolCallId, decision, word = "") => this.request("approve", { toolCallId, decision, word });
    state = () => this.request("state");
    messages = (limit = null) => this.request("messages", { limit });
    stats = () => this.request("stats");
    commands = () => this.request("commands");
    model = (model) => this.request("model", { model });
    models = () => this.request("models");
    thinking = (level) => this.request("thinking", { level });
    agentMode = (mode) => this.request("agent_mode", { mode });
    compact = (instructions = "") => this.request("compact", { instructions });
    sessions = (fields = {}) => this.request("sessions", fields);
    newSession = () => this.request("new_session");
    switchSession = (session) => this.request("switch_session", { session });
    nameSession = (name) => this.request("name_session", { name });
    fork = (messageId = null, before = false) => this.request("fork", { messageId, before });
    export = (fields = {}) => this.request("export", fields);
    changes = (limit = 10) => this.request("changes", { limit });
    decide = (fields) => this.request("decide", fields);
    undo = (fields = {}) => this.request("undo", fields);
    /** Send a command and return the data of its response. `timeout` is in milliseconds, 0 for no limit. */
    async request(name, fields, timeout = TAKING_TURNS.has(name) ? 0 : this.#timeout) {
        if (this.#isClosing)
            throw new RpcClientError("The client is closed.");
        if (this.#ended)
            throw this.#ended;
        const id = ++this.#lastId;
        const line = `${JSON.stringify({ ...fields, type: name, id })}\n`;
        if (Buffer.byteLength(line) > MAX_COMMAND)
            throw new CommandFailed(name, { code: "bad_request", message: `It has more than ${MAX_COMMAND} bytes.` });
        const response = await new Promise((resolve, reject) => {
            const timer = timeout > 0 &&
                setTimeout(() => this.#pending.get(id)?.settle(new CommandTimedOut(`${name}: no response within ${timeout} ms.`)), timeout);
            this.#pending.set(id, {
                settle: (outcome) => {
                    if (timer)
                        clearTimeout(timer);
                    this.#pending.delete(id);
                    if (outcome instanceof Error)
                        reject(outcome);
                    else
                        resolve(outcome);
                },
            });
            this.#process.stdin.write(line);
        });
        if (!response.success)
            throw new CommandFailed(name, response.error);
        return response.data;
    }
    /** End the process: in good order, or else by force. Newel ends the processes of its tools, also if it is killed. */
    async close() {
        this.#isClosing = true;
        this.#process.kill("SIGTERM");
        const timer = setTimeout(() => this.#killGroup(), GRACE_MS);
        await this.#exit;
        clearTimeout(timer);
        this.#process.stdin.destroy();
    }
    async [Symbol.asyncDispose]() {
        await this.close();
    }
    // -- the process -----------------------------------------------------------------------------------
    #finish(error, resolve) {
        this.#ended ??= error;
        for (const pending of [...this.#pending.values()])
            pending.settle(this.#ended);
        for (const stream of [...this.#streams])
            stream.end(this.#isClosing ? undefined : this.#ended);
        resolve();
    }
    #killGroup() {
        try {
            if (this.pid !== undefined)
                process.kill(-this.pid, "SIGKILL");
        }
        catch {
            // it has ended meanwhile
        }
    }
    #readLines() {
        let parts = [];
        let size = 0;
        this.#process.stdout.on("data", (chunk) => {
            let start = 0;
            for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
                this.#handle(Buffer.concat([...parts, chunk.subarray(start, end)]).toString("utf8"));
                parts = [];
                size = 0;
                start = end + 1;
            }
            const rest = chunk.subarray(start);
            parts.push(rest);
            size += rest.length;
            if (size > MAX_LINE)
                this.#break(`It wrote a line of more than ${MAX_LINE} bytes.`);
        });
    }
    #handle(line) {
        if (this.#isBroken)
            return;
        let message;
        try {
            message = JSON.parse(line);
        }
        catch {
            return this.#break(`It is not Newel: it wrote ${JSON.stringify(line.slice(0, 200))}.`);
        }
        if (message.type === "response") {
            this.#hasAnswered = true;
            if (typeof message.id === "number")
                this.#pending.get(message.id)?.settle(message); // else it has timed out
            return;
        }
        if (message.type === "error" && !this.#hasAnswered)
            this.#failure = { code: message.code, message: message.message };
        for (const stream of [...this.#streams])
            stream.put(message);
    }
    #break(problem) {
        this.#isBroken = true;
        this.#stderr += problem;
        this.#process.stdout.removeAllListeners("data").resume();
        this.#killGroup();
    }
}
/** Start Newel and wait until it answers. */
export async function connect(options = {}) {
    const client = new RpcClient(options);
    try {
        await client.state();
    }
    catch (error) {
        await client.close();
        throw error;
    }
    return client;
}
function textOf(messages) {
    const answer = messages.findLast((message) => message.role === "assistant");
    return answer?.role === "assistant" ? answer.content.map((part) => (part.type === "text" ? part.text : "")).join("") : "";
}
