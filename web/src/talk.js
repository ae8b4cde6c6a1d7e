// The conversation of one tab, folded from what the server sends. Pure: each function returns a new value and changes
// nothing, so that a view can tell by identity what is new.
//
//   entries   what is shown, in its order: {id, kind, at, …}
//             kinds: user, assistant, custom, retry, notice, error, end, verdict, acceptance
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
  for (const message of snapshot.messages ?? []) talk = addMessage(talk, message);
  for (const event of snapshot.events ?? []) talk = addTold(talk, event);
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
        ? { ...talk, live: grown(talk.live, event.assistantMessageEvent) }
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
      return add("retry", { attempt: event.attempt, of: event.maxAttempts, delay: event.delay, reason: event.reason });
    case "error":
      if (event.code === "progress") return add("notice", { level: "info", text: event.message });
      return told(talk, event.message) ? talk : add("error", { text: event.message, code: event.code });
    case "agent_end":
      return finished(talk, event, add);
    default:
      return talk;
  }
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
function finished(talk, event, add) {
  const calls = Object.fromEntries(
    Object.entries(talk.calls).map(([id, call]) => [id, call.working ? { ...call, working: false } : call]),
  );
  const known = event.reason === "aborted" ? isCut(talk) : told(talk, event.message);
  if (event.reason === "done" || !event.message || known) return { ...talk, live: null, calls };
  return { ...add("end", { reason: event.reason, text: event.message }), live: null, calls };
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

export const withQuestions = (talk, questions) => ({ ...talk, questions: questions.map(question) });

function addMessage(talk, message) {
  if (message.role === "toolResult") {
    return withCall(talk, message.toolCallId, { working: false, result: resultOf(message, message.output) });
  }
  const kind = message.role;
  return addEntry(talk, { id: message.id, kind, at: message.timestamp ?? "", message });
}

function addEntry(talk, entry) {
  const index = talk.entries.findIndex((each) => each.id === entry.id);
  if (index >= 0) return { ...talk, entries: talk.entries.with(index, entry) };
  // What comes late (a snapshot's events) is put where it happened; what has the same time comes after.
  let place = talk.entries.length;
  while (place > 0 && entry.at && talk.entries[place - 1].at > entry.at) place -= 1;
  return { ...talk, entries: talk.entries.toSpliced(place, 0, entry) };
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
