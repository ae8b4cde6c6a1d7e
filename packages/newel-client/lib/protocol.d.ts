/**
 * Start a run, or queue one behind those before it. Its events follow, up to `agent_end`. `expand` treats the text as typed
 * in a terminal: `/NAME` calls a prompt template, and `@PATH` attaches a file. Leave it off for text of others.
 */
export interface PromptCommand {
    type: "prompt";
    text: string;
    attachments?: Attachment[];
    expand?: boolean;
    id?: string | number | null;
}
/** A file attached to a prompt. `content` and `preview` are base64, `size` is in bytes. */
export interface Attachment {
    type: "document" | "image";
    fileName: string;
    mimeType: string;
    size: number;
    content: string;
    extractedText?: string | null;
    preview?: string | null;
    id?: string;
}
/** Summarize the conversation to free context. */
export interface CompactCommand {
    type: "compact";
    instructions?: string;
    id?: string | number | null;
}
/** Start a new session. */
export interface NewSessionCommand {
    type: "new_session";
    id?: string | number | null;
}
/**
 * Resume another session: its id, the beginning of its id, or its file. The error is `session_in_use` if another program has it
 * open.
 */
export interface SwitchSessionCommand {
    type: "switch_session";
    session: string;
    id?: string | number | null;
}
/**
 * Start a new session that begins as a copy of this one: up to a message and the results of its tool calls, or up to the end.
 * With `before`, the message itself is left out.
 */
export interface ForkCommand {
    type: "fork";
    messageId?: string | null;
    before?: boolean;
    id?: string | number | null;
}
/**
 * Undo the last run that is not undone, or the run of a checkpoint; with `redo`, redo what the last undo, or that of the
 * checkpoint, has undone. `preview` changes nothing.
 */
export interface UndoCommand {
    type: "undo";
    checkpoint?: string | null;
    preview?: boolean;
    redo?: boolean;
    id?: string | number | null;
}
/** List the models of the server. */
export interface ModelsCommand {
    type: "models";
    id?: string | number | null;
}
/** List the saved sessions of this folder, or of `all` folders. */
export interface SessionsCommand {
    type: "sessions";
    all?: boolean;
    limit?: number;
    id?: string | number | null;
}
/** Write the session as Markdown (`.md`) or HTML (`.html`) to a new file, or return it as text. Secrets are masked. */
export interface ExportCommand {
    type: "export";
    path?: string | null;
    html?: boolean;
    unmasked?: boolean;
    id?: string | number | null;
}
/** Return the changes to be decided and the latest runs. */
export interface ChangesCommand {
    type: "changes";
    limit?: number;
    id?: string | number | null;
}
/**
 * Keep or reject changes: `names` are hunks (an id or its beginning) and files. Kept ones are written. A rejection of a hunk that
 * the user has edited needs `mine`: drop only the user's lines (`peel`), or the whole hunk (`base`).
 */
export interface DecideCommand {
    type: "decide";
    verdict: "keep" | "reject";
    names?: string[];
    all?: boolean;
    mine?: "base" | "peel" | null;
    id?: string | number | null;
}
/** Send a message that reaches the model after the current tool calls. */
export interface SteerCommand {
    type: "steer";
    text: string;
    id?: string | number | null;
}
/** Send a message that reaches the model at the end of the run. */
export interface FollowUpCommand {
    type: "follow_up";
    text: string;
    id?: string | number | null;
}
/** End the current turn at once, with the processes of its tools. Queued turns follow. */
export interface AbortCommand {
    type: "abort";
    id?: string | number | null;
}
/** End the run before its next request to the model. */
export interface StopCommand {
    type: "stop";
    id?: string | number | null;
}
/**
 * Answer an `approval_request`. `always` holds for exactly this call, `rule` for what the request's `rule` says; `word` is
 * for the model, with a `no`.
 */
export interface ApproveCommand {
    type: "approve";
    toolCallId: string;
    decision: "always" | "no" | "once" | "rule";
    word?: string;
    id?: string | number | null;
}
/** Return the state of the agent. */
export interface StateCommand {
    type: "state";
    id?: string | number | null;
}
/** Return the messages of the conversation, or the last `limit` of them. */
export interface MessagesCommand {
    type: "messages";
    limit?: number | null;
    id?: string | number | null;
}
/** Use another model of the same server from the next request on. */
export interface ModelCommand {
    type: "model";
    model: string;
    id?: string | number | null;
}
/** Set how much the model reasons. */
export interface ThinkingCommand {
    type: "thinking";
    level: "high" | "low" | "medium" | "minimal" | "off";
    id?: string | number | null;
}
/** Set which model works, from the next request on. */
export interface AgentModeCommand {
    type: "agent_mode";
    mode: "hybrid_auto" | "local" | "remote";
    id?: string | number | null;
}
/** Name the session; an empty name removes the name. */
export interface NameSessionCommand {
    type: "name_session";
    name: string;
    id?: string | number | null;
}
/** Return the usage and cost of the conversation. */
export interface StatsCommand {
    type: "stats";
    id?: string | number | null;
}
/** List the commands of a conversation: prompt templates, and built-in ones with their requests. */
export interface CommandsCommand {
    type: "commands";
    id?: string | number | null;
}
/**
 * The prompt's run has begun and its message is in the session's file. If `queued`, it waits in memory for the turns before
 * it, and its `message_end` event tells that it is saved.
 */
export interface PromptAccepted {
    messageId: string;
    queued: boolean;
}
/** `context_before` is the size of the last request before it, in tokens. */
export interface CompactData {
    summary: string;
    contextBefore: number;
}
/** The session in use from now on. `damage` describes broken lines of its file. */
export interface SessionOpened {
    sessionId: string;
    sessionFile: string | null;
    messageCount: number;
    damage: string[];
}
/**
 * `files` with the effect of the undo as unified diffs; `redo`: it undoes an undo. `done` is false for a preview, and if
 * nothing changed. `skipped` has the changes that cannot be undone, with the reason.
 */
export interface UndoData {
    checkpointId: string;
    redo: boolean;
    done: boolean;
    files: UndoneFile[];
    skipped: FileProblem[];
}
export interface UndoneFile {
    path: string;
    patch: string;
}
export interface FileProblem {
    path: string;
    reason: string;
}
/** The models that the server lists, and the name of the one in use. */
export interface ModelsData {
    models: ModelDetails[];
    current: string;
}
/** A model; sizes are in tokens, prices in US dollars per million tokens, those of the lowest tier. None is unknown. */
export interface ModelDetails {
    name: string;
    contextWindow?: number | null;
    maxOutput?: number | null;
    tools?: boolean | null;
    thinking?: boolean | null;
    images?: boolean | null;
    inputPrice?: number | null;
    outputPrice?: number | null;
    hasTiers?: boolean;
}
/** The latest first. */
export interface SessionsData {
    sessions: ListedSession[];
}
/** A saved session. `modified` is in seconds since 1970; the texts are single lines without control characters. */
export interface ListedSession {
    id: string;
    name: string | null;
    firstText: string;
    messages: number;
    modified: number;
    cwd: string;
    path: string;
}
/** `text` without a `path`, else the written file. `masked` counts the secret values that were replaced. */
export interface ExportData {
    path: string | null;
    text: string | null;
    masked: number;
}
/** Changes to be decided, and the latest runs, the last one first. `problems` are files that could not be read. */
export interface ChangesData {
    pending: FileToDecide[];
    runs: RecordedRun[];
    problems: FileProblem[];
}
/** `change` and `about` describe the file if all of it is kept. */
export interface FileToDecide {
    filePath: string;
    change: string;
    about: string;
    hunks: ReviewHunk[];
}
/**
 * A change under review. `patch` is its effect alone; `conflict`: the file changed there since; `mine`: the user has edited
 * it; `warning` is a reason to look twice. `hunk_id` changes with the hunk's content.
 */
export interface ReviewHunk {
    hunkId: string;
    state: "accepted" | "pending" | "rejected";
    conflict: boolean;
    mine: boolean;
    run: string;
    patch: string;
    warning: string;
}
/** A run that changed files. `checkpoint_id` names it in `undo`. */
export interface RecordedRun {
    checkpointId: string;
    sessionId: string;
    createdAt: string;
    title: string;
    files: RunFileChange[];
}
/** `patch` is a unified diff; `state` is empty, or tells that the change is undone, or to be decided. */
export interface RunFileChange {
    filePath: string;
    state: string;
    patch: string;
}
/** `decided` are hunks, `written` files. `left` are those that were not decided or could not be written, with the reason. */
export interface DecideData {
    decided: string[];
    written: string[];
    left: FileProblem[];
}
/** The message waits in memory; its `message_end` event tells that the run has taken it. */
export interface QueuedForRun {
    messageId: string;
}
/** `running` tells whether there was something to end. */
export interface RunActivity {
    running: boolean;
}
export interface ApprovalAnswered {
    toolCallId: string;
}
/** The agent as it is now. */
export interface StateData {
    model: string;
    provider: string;
    /** The model's location if it is not the configured server: `on host (ollama run)`. */
    where: string;
    thinkingLevel: "high" | "low" | "medium" | "minimal" | "off";
    agentMode: "hybrid_auto" | "local" | "remote";
    /** The approval mode: which calls run without asking. */
    approve: string;
    /** What commands may change: the project, nothing, or what the user may; `partial` is the project, held as far as the machine can. */
    sandbox: "off" | "partial" | "read-only" | "workspace";
    /** Why commands run in no sandbox, or in a partial one, although you have not chosen that; else empty. */
    sandboxProblem: string;
    folder: string;
    /** Whether a prompt is being answered. */
    isStreaming: boolean;
    pendingToolCalls: string[];
    /** The calls that wait for `approve`. */
    pendingApprovals: string[];
    /** Queued requests. */
    waiting: number;
    steer: number;
    followUp: number;
    sessionId: string;
    sessionName: string | null;
    /** None for a session in memory. */
    sessionFile: string | null;
    messageCount: number;
    usage: Usage;
    /** US dollars; None if no price is known. */
    cost: number | null;
    /** Tokens of the last request. */
    context: number;
    /** Tokens of the model's window. */
    window: number | null;
    /** Of the last run. */
    error: string | null;
}
/** Tokens of one response. `input` is the whole prompt, including its cached part. */
export interface Usage {
    input?: number;
    output?: number;
    cacheRead?: number;
    cacheWrite?: number;
}
/** `total` counts the messages of the conversation, of which `messages` are the last ones. */
export interface MessagesData {
    messages: (UserMessage | AssistantMessage | ToolResultMessage | CustomMessage)[];
    total: number;
}
/** A message by the user, with attachments. `content` is a text, or texts and images. */
export interface UserMessage {
    role: "user";
    content: string | (TextContent | ImageContent)[];
    attachments?: Attachment[];
    id: string;
    timestamp: string;
}
/** A text. */
export interface TextContent {
    type: "text";
    text: string;
}
/** An image; `data` is base64 without a `data:` prefix. */
export interface ImageContent {
    type: "image";
    data: string;
    mimeType: string;
}
/**
 * An answer of the model: text, reasoning and tool calls, in their order. `error_message` says why it is incomplete, if
 * `stop_reason` is `error`. `duration` is in milliseconds, from the request to `timestamp`; `retries` are when the request was
 * repeated, in milliseconds after it began.
 */
export interface AssistantMessage {
    role: "assistant";
    content: (TextContent | ThinkingContent | ToolCall)[];
    model?: string;
    provider?: string;
    usage?: Usage;
    /** US dollars; None if the price is unknown. */
    cost?: number | null;
    stopReason?: "aborted" | "error" | "length" | "stop" | "toolUse";
    errorMessage?: string | null;
    duration?: number;
    retries?: number[];
    id: string;
    timestamp: string;
}
/**
 * Reasoning of the model. `field` is the wire field of the response, in which it is sent back. `signature` is opaque: only
 * the model that made it, at the same provider, accepts it back.
 */
export interface ThinkingContent {
    type: "thinking";
    thinking: string;
    field?: string | null;
    signature?: string | null;
}
/**
 * A request to run a tool. `problem` is the reason why it must not run (cut off, repaired, not JSON); the model gets it
 * instead of a result. `signature` belongs to the reasoning behind the call, like that of `ThinkingContent`.
 */
export interface ToolCall {
    type: "toolCall";
    id: string;
    name: string;
    arguments: Record<string, unknown>;
    problem?: string | null;
    signature?: string | null;
}
/**
 * The result of a tool call. `output` and `images` go to the model, `details` to screens. `duration` is in
 * milliseconds, 0 if the tool did not run; `waited` is how long its approval took before. `is_invalid`: the call itself was wrong, so
 * that no tool could run. `usage` and `cost` are those of an agent that the tool ran.
 */
export interface ToolResultMessage {
    role: "toolResult";
    toolCallId: string;
    toolName: string;
    output: string;
    isError: boolean;
    images?: ImageContent[];
    details?: Record<string, unknown>;
    duration?: number;
    waited?: number;
    isInvalid?: boolean;
    usage?: Usage;
    cost?: number | null;
    id: string;
    timestamp: string;
}
/** A message of the application. No model sees it unless a transformer converts it. */
export interface CustomMessage {
    role: "custom";
    name: string;
    data?: Record<string, unknown>;
    id: string;
    timestamp: string;
}
/** The model from the next request on. */
export interface ModelData {
    model: string;
    provider: string;
    where: string;
}
export interface ThinkingData {
    level: "high" | "low" | "medium" | "minimal" | "off";
}
export interface AgentModeData {
    mode: "hybrid_auto" | "local" | "remote";
    model: string;
    where: string;
}
export interface NameData {
    name: string | null;
}
/** Counts of the conversation. `context` and `window` are in tokens, `cost` in US dollars. */
export interface StatsData {
    sessionId: string;
    userMessages: number;
    assistantMessages: number;
    toolCalls: number;
    failedToolCalls: number;
    compactions: number;
    usage: Usage;
    cost: number | null;
    context: number;
    window: number | null;
}
export interface CommandsData {
    commands: CommandInfo[];
}
/** A command of a conversation. A `template` is called by a prompt with `expand`; a `builtin` by the request of that name. */
export interface CommandInfo {
    name: string;
    kind: "builtin" | "template";
    description: string;
    arguments: string;
    request: string;
}
/** A run begins. */
export interface AgentStart {
    type: "agent_start";
    timestamp: string;
}
/** A request to the model begins, with the messages that it answers. */
export interface TurnStart {
    type: "turn_start";
    timestamp: string;
}
/** A message starts. An assistant's message is still empty; its content follows as updates. */
export interface MessageStart {
    type: "message_start";
    message: UserMessage | AssistantMessage | ToolResultMessage | CustomMessage;
    timestamp: string;
}
/** A piece of the assistant's message with the id `message_id`, of its text, its reasoning or a tool call. */
export interface MessageUpdate {
    type: "message_update";
    messageId: string;
    assistantMessageEvent: TextDelta | ThinkingDelta | ToolCallDelta;
    timestamp: string;
}
/** A piece of the answer's text. */
export interface TextDelta {
    type: "text_delta";
    delta: string;
}
/** A piece of the model's reasoning. */
export interface ThinkingDelta {
    type: "thinking_delta";
    delta: string;
}
/**
 * A piece of a tool call that is being written. `index` identifies the call within its message; `name` comes with the
 * first piece.
 */
export interface ToolCallDelta {
    type: "toolcall_delta";
    index: number;
    name?: string | null;
    delta?: string;
}
/** A message is complete. Once `emit` has returned, it is durable. */
export interface MessageEnd {
    type: "message_end";
    message: UserMessage | AssistantMessage | ToolResultMessage | CustomMessage;
    timestamp: string;
}
/** A tool call begins; it is approved. `args` are those of the model. */
export interface ToolExecutionStart {
    type: "tool_execution_start";
    toolCallId: string;
    toolName: string;
    args: Record<string, unknown>;
    timestamp: string;
}
/**
 * A piece of output of a tool that is still running. `event` is an event of an agent that the tool runs; `delta` then describes
 * it.
 */
export interface ToolExecutionUpdate {
    type: "tool_execution_update";
    toolCallId: string;
    delta: string;
    event?: AgentStart | TurnStart | MessageStart | MessageUpdate | MessageEnd | ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd | TurnEnd | AgentEnd | QueueUpdate | StateUpdate | Retry | ModelRouted | Interrupted | ErrorEvent | null;
    timestamp: string;
}
/** `duration` is in milliseconds. */
export interface ToolExecutionEnd {
    type: "tool_execution_end";
    toolCallId: string;
    toolName: string;
    result: string;
    isError: boolean;
    duration: number;
    images?: ImageContent[];
    details?: Record<string, unknown>;
    timestamp: string;
}
/** A request and its tool calls are done. The messages were sent before; these are their ids. */
export interface TurnEnd {
    type: "turn_end";
    messageId: string;
    toolResultIds?: string[];
    timestamp: string;
}
/** The run is over. `usage` and `cost` (US dollars) are the totals of the run. */
export interface AgentEnd {
    type: "agent_end";
    reason: "aborted" | "done" | "error" | "max_cost" | "max_tokens" | "max_tool_calls" | "max_turns" | "stopped";
    message?: string;
    usage?: Usage;
    cost?: number | null;
    timestamp: string;
}
/** How many messages are queued for the end of the current tool calls (steer) and of the turn (follow-up). */
export interface QueueUpdate {
    type: "queue_update";
    steer: number;
    followUp: number;
    timestamp: string;
}
/** A setter changed these fields of the agent's state. */
export interface StateUpdate {
    type: "state_update";
    changed: string[];
    timestamp: string;
}
/** A request failed and is repeated after `delay` seconds. */
export interface Retry {
    type: "retry";
    attempt: number;
    maxAttempts: number;
    delay: number;
    reason: string;
    timestamp: string;
}
/** Which of several models is asked from now on, and why: `place` is `local` or `remote`. */
export interface ModelRouted {
    type: "model_routed";
    place: string;
    provider: string;
    model: string;
    reason: string;
    timestamp: string;
}
/** The run was aborted; its `agent_end` follows. */
export interface Interrupted {
    type: "interrupted";
    timestamp: string;
}
/**
 * Something that the user should know. At the level `error` something failed, and `code` is that of the error's class in
 * `newel.agent.errors`; at the other levels `code` is the topic, such as `connection`, `hook` or `progress`.
 */
export interface ErrorEvent {
    type: "error";
    code: string;
    message: string;
    level?: "error" | "info" | "warning";
    timestamp: string;
}
/**
 * A call needs an `approve` request; `preview` is its exact effect. `touches` are the files that it opens itself. The
 * same call asks again if one of them changes meanwhile. `rule` is what an answer `rule` allows in this project from then on;
 * without it, that is a `no`. With the `kind` `server`, a command in the sandbox wants to reach the server in `args`: `once` and
 * `always` allow it until the session ends.
 */
export interface ApprovalAsked {
    type: "approval_request";
    timestamp: string;
    toolCallId: string;
    toolName: string;
    args: Record<string, unknown>;
    label: string;
    preview: string;
    folder: string;
    touches?: Touch[];
    rule?: string;
    kind?: "call" | "server";
}
/**
 * A file or folder that a call itself opens. What a command opens is unknown.
 *
 * `path` is absolute on the tool's host, with links resolved; `named` is the path that the call gives. `before` and
 * `after` are the SHA-256 of the file's content now and after the call, `absent` for no file; empty if the call does not
 * depend on it.
 */
export interface Touch {
    path: string;
    named: string;
    writes?: boolean;
    before?: string;
    after?: string;
}
/**
 * `code` is for programs: that of an error of `newel.agent.errors`, `bad_request`, `aborted`, `not_recorded` or
 * `internal`. `message` is for users.
 */
export interface RpcFailure {
    code: string;
    message: string;
}
/** A request; `id` is the client's. */
export type Command = PromptCommand | CompactCommand | NewSessionCommand | SwitchSessionCommand | ForkCommand | UndoCommand | ModelsCommand | SessionsCommand | ExportCommand | ChangesCommand | DecideCommand | SteerCommand | FollowUpCommand | AbortCommand | StopCommand | ApproveCommand | StateCommand | MessagesCommand | ModelCommand | ThinkingCommand | AgentModeCommand | NameSessionCommand | StatsCommand | CommandsCommand;
/** Everything on standard output that is no response. */
export type RpcEvent = AgentStart | TurnStart | MessageStart | MessageUpdate | MessageEnd | ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd | TurnEnd | AgentEnd | QueueUpdate | StateUpdate | Retry | ModelRouted | Interrupted | ErrorEvent | ApprovalAsked;
export type AppMessage = UserMessage | AssistantMessage | ToolResultMessage | CustomMessage;
/** The data of the response to each command. */
export interface Replies {
    prompt: PromptAccepted;
    compact: CompactData;
    new_session: SessionOpened;
    switch_session: SessionOpened;
    fork: SessionOpened;
    undo: UndoData;
    models: ModelsData;
    sessions: SessionsData;
    export: ExportData;
    changes: ChangesData;
    decide: DecideData;
    steer: QueuedForRun;
    follow_up: QueuedForRun;
    abort: RunActivity;
    stop: RunActivity;
    approve: ApprovalAnswered;
    state: StateData;
    messages: MessagesData;
    model: ModelData;
    thinking: ThinkingData;
    agent_mode: AgentModeData;
    name_session: NameData;
    stats: StatsData;
    commands: CommandsData;
}
export type RequestId = string | number;
/** The response to a command. */
export type RpcResponse = {
    type: "response";
    id: RequestId | null;
    command: string;
    success: true;
    data: unknown;
} | {
    type: "response";
    id: RequestId | null;
    command: string | null;
    success: false;
    error: RpcFailure;
};
