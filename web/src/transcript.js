// The transcript of one tab, reduced from the server's events. Pure: each function returns a new value, so that views can
// detect changes by identity.
//
//   entries   in the order of the run's journal, which is the order the model saw: {id, kind, at, …}
//             kinds: user, newel, assistant, custom, retry, notice, error, end, verdict, acceptance
//   queue     messages that no run has picked up yet: {message, held}
//   live      the assistant's message while it is streamed, or null: {id, parts: [{type, text, name?}], at}
//   calls     by call id: {working, output, since, result, nested}; result: {output, isError, details, images, duration};
//             nested: the transcript of the call's subagent, or null if it has none, or none was loaded
//   todo      the model's list: [{text, status}]
//   branches  where the user has said several things, or something after the end: {after, messages}
//   tip       the id of the last message of the user or the model, results included; "" for none, null if it is unknown

const MAX_OUTPUT = 64 * 1024; // characters of a running tool's output that are kept
const TODO = "todo"; // the tool
const NOTICE = /^(decided|ended|hook)_/; // ids of messages that Newel sends in place of the user: NOTICE_IDS in agent/messages.py
const TRANSIENT_EVENTS = new Set(["message_start", "message_update", "tool_execution_update", "queue_update", "state_update"]);

const EMPTY_TOTALS = { input: 0, output: 0, cached: 0, context: 0, window: null, cost: null };

export const emptyTranscript = () => ({
  ready: false,
  run: null,
  seq: 0,
  more: false,
  entries: [],
  queue: [],
  live: null,
  calls: {},
  questions: [],
  totals: EMPTY_TOTALS,
  todo: [],
  branches: [],
  switches: 0,
  tip: "",
});

/** Build a transcript from a snapshot. */
export function fromSnapshot(snapshot) {
  let transcript = {
    ...emptyTranscript(),
    ready: true,
    run: snapshot.run ?? null,
    seq: snapshot.seq ?? 0,
    more: snapshot.more ?? false,
    switches: snapshot.switches ?? 0,
    questions: (snapshot.questions ?? []).map(question),
    totals: { ...EMPTY_TOTALS, ...snapshot.totals },
  };
  const told = snapshot.told ?? [];
  for (const { after, event } of told) if (after === "") transcript = addEventEntry(transcript, event);
  for (const message of snapshot.messages ?? []) {
    transcript = addMessage(transcript, message);
    for (const { after, event } of told) if (after === message.id) transcript = addEventEntry(transcript, event);
  }
  transcript = withQueue(transcript, snapshot.queue ?? []);
  transcript = { ...transcript, todo: snapshot.todo ?? [], branches: snapshot.branches ?? [] }; // the messages may begin after it was set
  for (const id of snapshot.working ?? []) transcript = withCall(transcript, id, { working: true });
  return addSoFar(transcript, snapshot.soFar ?? {});
}

/** Apply an event of a run. Persistent events that were applied before are ignored. */
export function addEvent(transcript, run, seq, event) {
  const lasting = !TRANSIENT_EVENTS.has(event.type) || Boolean(event.event);
  if (lasting && run === transcript.run && seq <= transcript.seq) return transcript;
  const read = lasting || run !== transcript.run ? { ...transcript, run, seq } : transcript;
  return applyEvent(read, event);
}

function applyEvent(transcript, event) {
  switch (event.type) {
    case "message_start":
      return event.message.role === "assistant" ? { ...transcript, live: toLive(event.message) } : transcript;
    case "message_update":
      return transcript.live?.id === event.messageId
        ? { ...closeRetry(transcript, ""), live: appendDelta(transcript.live, event.assistantMessageEvent) }
        : transcript;
    case "message_end":
      return addMessage(transcript.live?.id === event.message.id ? { ...transcript, live: null } : transcript, event.message);
    case "tool_execution_start":
      return withCall(transcript, event.toolCallId, { working: true, since: event.timestamp, output: "" });
    case "tool_execution_update": {
      const { output = "", nested = null } = transcript.calls[event.toolCallId] ?? {};
      return withCall(transcript, event.toolCallId, {
        output: (output + event.delta).slice(-MAX_OUTPUT),
        nested: event.event ? applyEvent(nested ?? emptyTranscript(), event.event) : nested,
      });
    }
    case "tool_execution_end":
      return endCall(transcript, event.toolCallId, event.toolName, resultOf(event, event.result));
    case "retry":
      return addEventEntry({ ...transcript, live: transcript.live && { ...transcript.live, parts: [] } }, event);
    default:
      return addEventEntry(transcript, event);
  }
}

/** Add an entry for an event that is not a message: verdict, notice, error, end. */
function addEventEntry(transcript, event) {
  const at = event.timestamp ?? "";
  const add = (kind, values) => addEntry(transcript, { id: `${kind}:${at}:${transcript.entries.length}`, kind, at, ...values });
  switch (event.type) {
    case "evaluation":
      return add("verdict", { satisfied: event.satisfied, why: event.why, missing: event.missing ?? "" });
    case "acceptance_start":
      return add("acceptance", { command: event.command, passed: null, output: "", duration: null });
    case "acceptance_end":
      return completeAcceptance(transcript, event) ?? add("acceptance", acceptance(event));
    case "notice":
      return add("notice", { level: event.level, text: event.message });
    case "model_routed":
      return add("notice", { level: "info", text: `Using the ${event.place} model ${event.model}: ${event.reason}.` });
    case "retry":
      return updateRetry(transcript, event) ?? add("retry", retryOf(event));
    case "error":
      if ((event.level ?? "error") !== "error") return add("notice", { level: event.level, text: event.message });
      return isShown(transcript, event.message) ? transcript : add("error", { text: event.message, code: event.code });
    case "agent_end":
      return endRun(transcript, event);
    case "tool_execution_update":
      return applyEvent(transcript, event);
    default:
      return transcript;
  }
}

const retryOf = (event) => ({ attempt: event.attempt, of: event.maxAttempts, delay: event.delay, reason: event.reason, outcome: null });

/** Update the entry of a request that is retried once more; null if this is the first retry. */
function updateRetry(transcript, event) {
  const last = transcript.entries.at(-1);
  if (last?.kind !== "retry" || last.outcome !== null) return null;
  return { ...transcript, entries: transcript.entries.with(-1, { ...last, ...retryOf(event) }) };
}

/** Close the entry of a retried request: `failure` is its last error, "" if it succeeded. */
function closeRetry(transcript, failure) {
  const last = transcript.entries.at(-1);
  if (last?.kind !== "retry" || last.outcome !== null) return transcript;
  return { ...transcript, entries: transcript.entries.with(-1, { ...last, outcome: failure ? "failed" : "answered" }) };
}

const acceptance = (event) => ({
  command: event.command,
  passed: event.passed,
  output: event.output,
  duration: event.duration,
});

/** Complete the entry of the running acceptance command; null if there is none. */
function completeAcceptance(transcript, event) {
  const index = transcript.entries.findLastIndex((entry) => entry.kind === "acceptance" && entry.passed === null);
  if (index < 0 || transcript.entries[index].command !== event.command) return null;
  const entries = transcript.entries.with(index, { ...transcript.entries[index], ...acceptance(event) });
  return { ...transcript, entries };
}

/** End the run. Its reason becomes an entry, unless the last entry already shows it. */
function endRun(given, event) {
  const transcript = closeRetry(given, event.message || event.reason);
  const calls = Object.fromEntries(
    Object.entries(transcript.calls).map(([id, call]) => [id, call.working ? { ...call, ...ended(call) } : call]),
  );
  const known = event.reason === "aborted" ? isCut(transcript) : isShown(transcript, event.message);
  if (event.reason === "done" || !event.message || known) return { ...transcript, live: null, calls };
  const entry = { id: `end:${event.timestamp ?? ""}:${transcript.entries.length}`, kind: "end", at: event.timestamp ?? "" };
  return { ...addEntry(transcript, { ...entry, reason: event.reason, text: event.message }), live: null, calls };
}

/** Whether the last entry has this text already: a failed answer and the error event have the same. */
function isShown(transcript, words) {
  const last = transcript.entries.at(-1);
  return Boolean(last) && (last.text === words || last.message?.errorMessage === words);
}

/** Whether the last message shows by itself that the run was stopped. */
const isCut = (transcript) => transcript.entries.at(-1)?.message?.stopReason === "aborted";

/** Prepend earlier messages, the oldest first. */
export function addHistory(transcript, messages, more) {
  const known = new Set(transcript.entries.map((entry) => entry.id));
  let older = { ...emptyTranscript() };
  for (const message of messages) older = addMessage(older, message);
  const entries = [...older.entries.filter((entry) => !known.has(entry.id)), ...transcript.entries];
  return { ...transcript, entries, calls: { ...older.calls, ...transcript.calls }, more };
}

/** Remove a message and all that follow it. */
export function cutBefore(transcript, id) {
  const index = transcript.entries.findIndex((entry) => entry.id === id);
  return index < 0 ? transcript : { ...transcript, entries: transcript.entries.slice(0, index), live: null, tip: null };
}

const NONE = [];

/** The ids of the versions of an edited message, the oldest first; empty for one that was never edited. */
export const versionsOf = ({ branches }, id) => branches.find(({ messages }) => messages.length > 1 && messages.includes(id))?.messages ?? NONE;

/** The ids of the user's messages after the end of the conversation, which went back. */
export const keptAtEnd = ({ branches, tip }) => branches.find(({ after }) => after === tip)?.messages ?? NONE;

/** Whether Newel says a message by itself: it may stand before one version of the user's message, and not before another. */
const isNewels = ({ id, role }) => role === "custom" || (role === "user" && NOTICE.test(id));

/** The branches after a message was added at the end. */
function extendBranches({ branches, tip }, { id, role }) {
  if (role !== "user") return branches;
  return branches.map((each) => (each.after === tip && !each.messages.includes(id) ? { ...each, messages: [...each.messages, id] } : each));
}

/** Replace the growing message and outputs by the server's current ones, for a page that connects late. */
export function addSoFar(transcript, soFar) {
  const live = soFar.message ? toLive(soFar.message) : null;
  let next = live === transcript.live ? transcript : { ...transcript, live };
  for (const [id, output] of Object.entries(soFar.outputs ?? {})) next = withCall(next, id, { working: true, output });
  return next;
}

/** Replace the queue, without the messages that a run has picked up meanwhile. */
export function withQueue(transcript, messages) {
  const said = new Set(transcript.entries.map((entry) => entry.id));
  return { ...transcript, queue: messages.filter(({ message }) => !said.has(message.id)) };
}

/** Whether the model is answering: it works on a message, or its last message calls tools. */
function isAnswering({ live, entries }) {
  const last = entries.findLast(({ kind }) => ["user", "newel", "assistant", "error", "end"].includes(kind));
  if (live) return true;
  return last?.kind === "assistant" ? last.message.stopReason === "toolUse" : ["user", "newel"].includes(last?.kind);
}

/**
 * Divide the messages that are not in the conversation yet. `pending` are those sent from this page, `busy`: a run is in progress.
 * `queued` wait above the message box; `next` stand at the end of the conversation, where a run takes them up at once.
 */
export function divideQueue(transcript, pending, { busy }) {
  const waits = busy && isAnswering(transcript);
  const isHeldUp = ({ held }, index) => held || waits || index > 0;
  const isQueueing = ({ state, before }) => waits && state !== "failed" && !before;
  return {
    queued: [...transcript.queue.filter(isHeldUp), ...pending.filter(isQueueing)],
    next: [...transcript.queue.filter((each, index) => !isHeldUp(each, index)), ...pending.filter((each) => !isQueueing(each))],
  };
}

export const withQuestions = (transcript, questions) => ({ ...transcript, questions: questions.map(question) });

function addMessage(before, message) {
  const isNew = !before.entries.some(({ id }) => id === message.id);
  const transcript = isNew && !isNewels(message) ? { ...before, branches: extendBranches(before, message), tip: message.id } : before;
  if (message.role === "toolResult") {
    return endCall(transcript, message.toolCallId, message.toolName, resultOf(message, message.output));
  }
  const kind = message.role === "user" && isNewels(message) ? "newel" : message.role;
  const failure = message.stopReason === "error" || message.stopReason === "aborted" ? message.errorMessage || "failed" : "";
  const next = kind === "assistant" ? closeRetry(transcript, failure) : withQueue(transcript, transcript.queue.filter((each) => each.message.id !== message.id));
  return addEntry(next, { id: message.id, kind, at: message.timestamp ?? "", message });
}

function addEntry(transcript, entry) {
  const index = transcript.entries.findIndex((each) => each.id === entry.id);
  if (index >= 0) return { ...transcript, entries: transcript.entries.with(index, entry) };
  return { ...transcript, entries: [...transcript.entries, entry] };
}

const NO_CALL = { working: false, output: "", since: null, result: null, nested: null };

function withCall(transcript, id, change) {
  const before = transcript.calls[id] ?? NO_CALL;
  return { ...transcript, calls: { ...transcript.calls, [id]: { ...before, ...change } } };
}

/** Give a call its result; one of the todo list sets that. */
function endCall(transcript, id, name, result) {
  const next = withCall(transcript, id, { ...ended(transcript.calls[id] ?? NO_CALL), result });
  return name === TODO && !result.isError ? { ...next, todo: result.details.items ?? [] } : next;
}

/** A call that has ended, and with it its subagent. */
const ended = ({ nested }) => ({ working: false, nested: nested && endRun(nested, { type: "agent_end", reason: "done" }) });

/** Give a call the conversation of its subagent, unless that came with the events. */
export function withSubagent(transcript, id, messages) {
  if (transcript.calls[id]?.nested) return transcript;
  return withCall(transcript, id, { nested: messages.reduce(addMessage, emptyTranscript()) });
}

const resultOf = (told, output) => ({
  output: output ?? "",
  isError: told.isError ?? false,
  details: told.details ?? {},
  images: told.images ?? [],
  duration: told.duration ?? 0,
});

function toLive(message) {
  const shown = (message.content ?? []).filter((part) => part.type !== "thinking" || part.thinking);
  const parts = shown.map((part) => {
    if (part.type === "text") return { type: "text", text: part.text };
    if (part.type === "thinking") return { type: "thinking", text: part.thinking };
    return { type: "call", text: JSON.stringify(part.arguments ?? {}), name: part.name };
  });
  return { id: message.id, at: message.timestamp ?? "", parts };
}

function appendDelta(live, delta) {
  if (delta.type === "toolcall_delta") return { ...live, parts: appendCallDelta(live.parts, delta) };
  const type = delta.type === "text_delta" ? "text" : "thinking";
  const last = live.parts.at(-1);
  if (last?.type === type) {
    const parts = live.parts.with(-1, { ...last, text: last.text + delta.delta });
    return { ...live, parts };
  }
  return { ...live, parts: [...live.parts, { type, text: delta.delta }] };
}

function appendCallDelta(parts, { index, name, delta = "" }) {
  const place = parts.findIndex((part) => part.type === "call" && part.index === index);
  if (place < 0) return [...parts, { type: "call", index, name: name ?? "", text: delta }];
  const before = parts[place];
  return parts.with(place, { ...before, name: name ?? before.name, text: before.text + delta });
}

const question = (given) => ({ preview: "", folder: "", schema: {}, url: "", ...given });
