// The state of the page: reduced from the server's frames and the user's actions.
//
//   link       "connecting" | "open" | "lost" | "denied"
//   hello      the welcome: project, model, approve, ephemeral, newel, server, and the host as it is now
//   tabs       as the server lists them, with every field set
//   transcripts     by tab id, for the tabs that are watched
//   pending    by tab id: messages sent here that are not part of the conversation yet: {id, text, state, before}
//   stopping   by tab id: "soon" or "now", for runs that were asked to stop
//   newChat    what was chosen for the next chat, before there is one: {model, agentMode, approve, thinking}
//   permissionChanges   counts the reports that what answers have allowed may have changed
//   trust      what of the project waits for trust: {items, digest, problem}
//   active     the id of the tab that is shown, or null
//   focusRequests   counts the requests to show a tab and focus it

import { addEvent, addHistory, addSoFar, cutBefore, emptyTranscript, fromSnapshot, withQuestions, withQueue, withSubagent } from "./transcript.js";

export const initialState = () => ({
  link: "connecting",
  hello: null,
  tabs: [],
  servers: [],
  transcripts: {},
  pending: {},
  stopping: {},
  newChat: {},
  permissionChanges: 0,
  trust: { items: [], digest: "", problem: "" },
  active: null,
  focusRequests: 0,
});

const tabOf = (given) => ({
  model: null,
  approve: null,
  thinking: null,
  contract: null,
  run: null,
  reason: "",
  log: null,
  folder: "",
  activity: 0,
  queued: 0,
  switches: 0,
  ...given,
});

const serverOf = (given) => ({
  reason: "",
  stderr: "",
  ...given,
  tools: (given.tools ?? []).map((tool) => ({ description: "", enabled: true, ...tool })),
});

export const isBusy = (tab) => tab.status === "running" || tab.status === "waiting";

/** Whether nothing has been said in a chat of the state, nor is on its way. */
export const isEmptyChat = ({ transcripts, pending }, { id, kind, status, run, activity, queued, title }) =>
  kind === "chat" && status === "idle" && !run && activity === 0 && queued === 0 && title === "Chat" && !pending[id] && !transcripts[id]?.entries.length;

/** Whether the project's host, if it has one, cannot be reached. */
export const isHostAway = (host) => Boolean(host) && host.state !== "up" && host.state !== "slow";

/** Whether a tab has a question for the user; `transcript` is that of the tab, undefined if it is not watched. */
export const needsAnswer = (tab, transcript) => tab.status === "waiting" || transcript?.questions.length > 0;

/** The state after a frame of the server or of the page; the latter have types that begin with "page/". */
export function reduce(state, frame) {
  const step = REDUCERS[frame.type];
  return step ? step(state, frame) : state;
}

const REDUCERS = {
  welcome(state, frame) {
    const restarted = state.hello && state.hello.server !== frame.server;
    const current = withoutSwitched(state, frame.tabs ?? []);
    const transcripts = restarted ? mapValues(current, (transcript) => ({ ...transcript, live: null })) : current;
    const next = { ...state, hello: frame, transcripts, servers: (frame.servers ?? []).map(serverOf), permissionChanges: state.permissionChanges + 1 };
    return withTabs(next, frame.tabs ?? []);
  },
  tabs: (state, frame) => withTabs(state, frame.tabs ?? []),
  model: (state, { model: { name, where = "", problem = "", agentMode = "remote" } }) => ({ ...state, hello: { ...state.hello, model: name, where, problem, agentMode } }),
  host: (state, { host }) => ({ ...state, hello: { ...state.hello, host } }),
  permissions: (state) => ({ ...state, permissionChanges: state.permissionChanges + 1 }),
  servers: (state, frame) => ({ ...state, servers: (frame.servers ?? []).map(serverOf) }),
  snapshot(state, frame) {
    return dropDelivered(withTranscript(state, frame.tab, () => fromSnapshot(frame.snapshot)), frame.tab);
  },
  event(state, frame) {
    const next = withTranscript(state, frame.tab, (transcript) => addEvent(transcript, frame.run, frame.seq ?? 0, frame.event));
    return frame.event.type === "message_end" ? dropDelivered(next, frame.tab) : next;
  },
  soFar: (state, frame) => withTranscript(state, frame.tab, (transcript) => addSoFar(transcript, frame.soFar ?? {})),
  totals: (state, frame) =>
    withTranscript(state, frame.tab, (transcript) => ({ ...transcript, totals: { ...transcript.totals, ...frame.totals } })),
  queue: (state, frame) =>
    dropDelivered(withTranscript(state, frame.tab, (transcript) => withQueue(transcript, frame.messages ?? [])), frame.tab),
  questions: (state, frame) => withTranscript(state, frame.tab, (transcript) => withQuestions(transcript, frame.questions ?? [])),

  "page/link": (state, { link }) => (link === state.link ? state : { ...state, link }),
  "page/show": (state, { tab, focus = false }) => ({ ...state, active: tab, focusRequests: state.focusRequests + Number(focus) }),
  "page/watch": (state, { tab }) =>
    state.transcripts[tab] ? state : { ...state, transcripts: { ...state.transcripts, [tab]: emptyTranscript() } },
  "page/forget": (state, { tab }) => ({ ...state, transcripts: without(state.transcripts, tab) }),
  "page/history": (state, { tab, messages, more }) =>
    withTranscript(state, tab, (transcript) => addHistory(transcript, messages ?? [], more ?? false)),
  "page/subagent": (state, { tab, call, messages }) =>
    withTranscript(state, tab, (transcript) => withSubagent(transcript, call, messages)),
  "page/send": (state, { tab, message }) => {
    const cut = message.before && message.state !== "failed" ? withTranscript(state, tab, (transcript) => cutBefore(transcript, message.before)) : state;
    const others = (cut.pending[tab] ?? []).filter((each) => each.id !== message.id);
    return withPending(cut, tab, [...others, { kind: "pending", state: "sending", ...message }]);
  },
  "page/sendResult": (state, { tab, id, state: how }) =>
    withPending(
      state,
      tab,
      (state.pending[tab] ?? []).map((each) => (each.id === id ? { ...each, state: how } : each)),
    ),
  "page/discard": (state, { tab, id }) =>
    withPending(state, tab, (state.pending[tab] ?? []).filter((each) => each.id !== id)),
  "page/stop": (state, { tab, now }) => ({
    ...state,
    stopping: { ...state.stopping, [tab]: now ? "now" : "soon" },
  }),
  "page/trust": (state, { trust }) => ({ ...state, trust }),
  "page/newChat": (state, { chosen }) => ({ ...state, newChat: chosen ? { ...state.newChat, ...chosen } : {} }),
  "page/stopFailed": (state, { tab }) => ({ ...state, stopping: without(state.stopping, tab) }),
};

/** The transcripts; empty ones of conversations that went to another branch before this page had their snapshot: they are read anew. */
function withoutSwitched({ transcripts }, tabs) {
  const counts = new Map(tabs.map(({ id, switches = 0 }) => [id, switches]));
  const isOld = (id, { switches }) => counts.has(id) && counts.get(id) !== switches;
  return Object.fromEntries(Object.entries(transcripts).map(([id, transcript]) => [id, isOld(id, transcript) ? emptyTranscript() : transcript]));
}

/** Replace the tabs, and drop the state of those that are gone. */
function withTabs(state, given) {
  const tabs = given.map(tabOf);
  const here = new Map(tabs.map((tab) => [tab.id, tab]));
  const ofOpenTabs = (values) => Object.fromEntries(Object.entries(values).filter(([id]) => here.has(id)));
  const runs = new Map(state.tabs.map(({ id, run }) => [id, run]));
  const goesOn = ([id]) => isBusy(here.get(id) ?? { status: "" }) && here.get(id).run === runs.get(id); // the next run may follow at once
  return {
    ...state,
    tabs,
    transcripts: ofOpenTabs(state.transcripts),
    pending: ofOpenTabs(state.pending),
    stopping: Object.fromEntries(Object.entries(state.stopping).filter(goesOn)),
  };
}

function withTranscript(state, tab, change) {
  const transcript = state.transcripts[tab];
  if (!transcript) return state;
  const next = change(transcript);
  return next === transcript ? state : { ...state, transcripts: { ...state.transcripts, [tab]: next } };
}

/** Drop the pending messages that have reached the conversation or its queue. */
function dropDelivered(state, tab) {
  const pending = state.pending[tab];
  const transcript = state.transcripts[tab];
  if (!pending?.length || !transcript) return state;
  const has = new Set([...transcript.entries.map((entry) => entry.id), ...transcript.queue.map(({ message }) => message.id)]);
  const rest = pending.filter((each) => !has.has(each.id));
  return rest.length === pending.length ? state : withPending(state, tab, rest);
}

function withPending(state, tab, messages) {
  const pending = messages.length ? { ...state.pending, [tab]: messages } : without(state.pending, tab);
  return { ...state, pending };
}

const without = (values, key) => Object.fromEntries(Object.entries(values).filter(([each]) => each !== key));
const mapValues = (values, change) => Object.fromEntries(Object.entries(values).map(([key, value]) => [key, change(value)]));

/** Holds the state; subscribers are called with it and the frame that changed it. */
export function createStore() {
  let state = initialState();
  const readers = new Set();
  return {
    get: () => state,
    dispatch(frame) {
      const next = reduce(state, frame);
      if (next === state) return;
      state = next;
      for (const reader of readers) reader(state, frame);
    },
    subscribe(reader) {
      readers.add(reader);
      return () => readers.delete(reader);
    },
  };
}
