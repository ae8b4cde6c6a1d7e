// The conversation of one tab, folded from what the server sends. Pure: each function returns a new value and changes
// nothing, so that a view can tell by identity what is new.
//
//   entries   what is shown, in the order of the run's journal, which is that in which the model had it: {id, kind, at, …}
//             kinds: user, assistant, custom, retry, notice, error, end, verdict, acceptance
//   queue     messages that no run has taken yet: {message, held}
//   live      the assistant's message that is being written, or null: {id, parts: [{type, text, name?}], at}
//   calls     by call id: {working, output, since, result}; result: {output, isError, details, images, duration}

const OUTPUT_KEPT = 64 * 1024; // characters of a running tool's output
const FLEETING = new Set(["message_start", "message_update", "tool_execution_update", "queue_update", "state_update"]);

const EMPTY_TOTALS = { input: 0, output: 0, context: 0, window: null, cost: null };

export const emptyTalk = () => ({
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
});

/** The talk that a snapshot describes. */
export function fromSnapshot(snapshot) {
  let talk = {
    ...emptyTalk(),
    ready: true,
    run: snapshot.run ?? null,
    seq: snapshot.seq ?? 0,
    more: snapshot.more ?? false,
    questions: (snapshot.questions ?? []).map(question),
    totals: { ...EMPTY_TOTALS, ...snapshot.totals },
  };
  const told = snapshot.told ?? [];
  for (const { after, event } of told) if (after === "") talk = addTold(talk, event);
  for (const message of snapshot.messages ?? []) {
    talk = addMessage(talk, message);
    for (const { after, event } of told) if (after === message.id) talk = addTold(talk, event);
  }
  talk = withQueue(talk, snapshot.queue ?? []);
  for (const id of snapshot.working ?? []) talk = withCall(talk, id, { working: true });
  return addSoFar(talk, snapshot.soFar ?? {});
}

/** The talk after one event of a run. A lasting event that was read before changes nothing. */
export function addEvent(talk, run, seq, event) {
  const lasting = !FLEETING.has(event.type);
  if (lasting && run === talk.run && seq <= talk.seq) return talk;
  const read = lasting || run !== talk.run ? { ...talk, run, seq } : talk;
  return applied(read, event);
}

function applied(talk, event) {
  switch (event.type) {
    case "message_start":
      return event.message.role === "assistant" ? { ...talk, live: begun(event.message) } : talk;
    case "message_update":
      return talk.live?.id === event.messageId
        ? { ...afterTries(talk, ""), live: grown(talk.live, event.assistantMessageEvent) }
        : talk;
    case "message_end":
      return addMessage(talk.live?.id === event.message.id ? { ...talk, live: null } : talk, event.message);
    case "tool_execution_start":
      return withCall(talk, event.toolCallId, { working: true, since: event.timestamp, output: "" });
    case "tool_execution_update": {
      const before = talk.calls[event.toolCallId]?.output ?? "";
      return withCall(talk, event.toolCallId, { output: (before + event.delta).slice(-OUTPUT_KEPT) });
    }
    case "tool_execution_end":
      return withCall(talk, event.toolCallId, { working: false, result: resultOf(event, event.result) });
    case "retry":
      return addTold({ ...talk, live: talk.live && { ...talk.live, parts: [] } }, event);
    default:
      return addTold(talk, event);
  }
}

/** Add what an event tells beside the messages: verdicts, notices, errors, ends. */
function addTold(talk, event) {
  const at = event.timestamp ?? "";
  const add = (kind, values) => addEntry(talk, { id: `${kind}:${at}:${talk.entries.length}`, kind, at, ...values });
  switch (event.type) {
    case "evaluation":
      return add("verdict", { satisfied: event.satisfied, why: event.why, missing: event.missing ?? "" });
    case "acceptance_start":
      return add("acceptance", { command: event.command, passed: null, output: "", duration: null });
    case "acceptance_end":
      return ended(talk, event) ?? add("acceptance", acceptance(event));
    case "notice":
      return add("notice", { level: event.level, text: event.message });
    case "retry":
      return tried(talk, event) ?? add("retry", triesOf(event));
    case "error":
      if (event.code === "progress") return add("notice", { level: "info", text: event.message });
      return told(talk, event.message) ? talk : add("error", { text: event.message, code: event.code });
    case "agent_end":
      return finished(talk, event);
    default:
      return talk;
  }
}

const triesOf = (event) => ({ attempt: event.attempt, of: event.maxAttempts, delay: event.delay, reason: event.reason, outcome: null });

/** Tries of the same request are one entry, the latest; null where this is the first. */
function tried(talk, event) {
  const last = talk.entries.at(-1);
  if (last?.kind !== "retry" || last.outcome !== null) return null;
  return { ...talk, entries: talk.entries.with(-1, { ...last, ...triesOf(event) }) };
}

/** The talk in which tries are over: `failure` is what the last one failed with, "" if it was answered. */
function afterTries(talk, failure) {
  const last = talk.entries.at(-1);
  if (last?.kind !== "retry" || last.outcome !== null) return talk;
  return { ...talk, entries: talk.entries.with(-1, { ...last, outcome: failure ? "failed" : "answered" }) };
}

const acceptance = (event) => ({
  command: event.command,
  passed: event.passed,
  output: event.output,
  duration: event.duration,
});

/** The end of the acceptance command that began last, put into its entry. */
function ended(talk, event) {
  const index = talk.entries.findLastIndex((entry) => entry.kind === "acceptance" && entry.passed === null);
  if (index < 0 || talk.entries[index].command !== event.command) return null;
  const entries = talk.entries.with(index, { ...talk.entries[index], ...acceptance(event) });
  return { ...talk, entries };
}

/** Nothing works any longer; an end that the reader would not see from the messages is said in words. */
function finished(given, event) {
  const talk = afterTries(given, event.message || event.reason);
  const calls = Object.fromEntries(
    Object.entries(talk.calls).map(([id, call]) => [id, call.working ? { ...call, working: false } : call]),
  );
  const known = event.reason === "aborted" ? isCut(talk) : told(talk, event.message);
  if (event.reason === "done" || !event.message || known) return { ...talk, live: null, calls };
  const entry = { id: `end:${event.timestamp ?? ""}:${talk.entries.length}`, kind: "end", at: event.timestamp ?? "" };
  return { ...addEntry(talk, { ...entry, reason: event.reason, text: event.message }), live: null, calls };
}

/** Whether the last words are these already: a failed answer and the error event say the same. */
function told(talk, words) {
  const last = talk.entries.at(-1);
  return Boolean(last) && (last.text === words || last.message?.errorMessage === words);
}

/** Whether a message that was cut short says by itself that the run was stopped. */
const isCut = (talk) => talk.entries.at(-1)?.message?.stopReason === "aborted";

/** Add earlier messages, the oldest first, before all others. */
export function addHistory(talk, messages, more) {
  const known = new Set(talk.entries.map((entry) => entry.id));
  let older = { ...emptyTalk() };
  for (const message of messages) older = addMessage(older, message);
  const entries = [...older.entries.filter((entry) => !known.has(entry.id)), ...talk.entries];
  return { ...talk, entries, calls: { ...older.calls, ...talk.calls }, more };
}

/** Go back to just before a message: what followed is not part of the conversation any longer. */
export function cutBefore(talk, id) {
  const index = talk.entries.findIndex((entry) => entry.id === id);
  return index < 0 ? talk : { ...talk, entries: talk.entries.slice(0, index), live: null };
}

/** What a reader that comes late has missed; it replaces what it had of it. */
export function addSoFar(talk, soFar) {
  const live = soFar.message ? begun(soFar.message) : null;
  let next = live === talk.live ? talk : { ...talk, live };
  for (const [id, output] of Object.entries(soFar.outputs ?? {})) next = withCall(next, id, { working: true, output });
  return next;
}

/** The messages that wait, without those that were taken meanwhile. */
export function withQueue(talk, messages) {
  const said = new Set(talk.entries.map((entry) => entry.id));
  return { ...talk, queue: messages.filter(({ message }) => !said.has(message.id)) };
}

export const withQuestions = (talk, questions) => ({ ...talk, questions: questions.map(question) });

function addMessage(talk, message) {
  if (message.role === "toolResult") {
    return withCall(talk, message.toolCallId, { working: false, result: resultOf(message, message.output) });
  }
  const kind = message.role;
  const failure = message.stopReason === "error" || message.stopReason === "aborted" ? message.errorMessage || "failed" : "";
  const next = kind === "assistant" ? afterTries(talk, failure) : withQueue(talk, talk.queue.filter((each) => each.message.id !== message.id));
  return addEntry(next, { id: message.id, kind, at: message.timestamp ?? "", message });
}

function addEntry(talk, entry) {
  const index = talk.entries.findIndex((each) => each.id === entry.id);
  if (index >= 0) return { ...talk, entries: talk.entries.with(index, entry) };
  return { ...talk, entries: [...talk.entries, entry] };
}

function withCall(talk, id, change) {
  const before = talk.calls[id] ?? { working: false, output: "", since: null, result: null };
  return { ...talk, calls: { ...talk.calls, [id]: { ...before, ...change } } };
}

const resultOf = (told, output) => ({
  output: output ?? "",
  isError: told.isError ?? false,
  details: told.details ?? {},
  images: told.images ?? [],
  duration: told.duration ?? 0,
});

function begun(message) {
  const parts = (message.content ?? []).map((part) => {
    if (part.type === "text") return { type: "text", text: part.text };
    if (part.type === "thinking") return { type: "thinking", text: part.thinking };
    return { type: "call", text: JSON.stringify(part.arguments ?? {}), name: part.name };
  });
  return { id: message.id, at: message.timestamp ?? "", parts };
}

function grown(live, delta) {
  if (delta.type === "toolcall_delta") return { ...live, parts: withCallPiece(live.parts, delta) };
  const type = delta.type === "text_delta" ? "text" : "thinking";
  const last = live.parts.at(-1);
  if (last?.type === type) {
    const parts = live.parts.with(-1, { ...last, text: last.text + delta.delta });
    return { ...live, parts };
  }
  return { ...live, parts: [...live.parts, { type, text: delta.delta }] };
}

function withCallPiece(parts, { index, name, delta = "" }) {
  const place = parts.findIndex((part) => part.type === "call" && part.index === index);
  if (place < 0) return [...parts, { type: "call", index, name: name ?? "", text: delta }];
  const before = parts[place];
  return parts.with(place, { ...before, name: name ?? before.name, text: before.text + delta });
}

const question = (given) => ({ preview: "", folder: "", schema: {}, url: "", ...given });
