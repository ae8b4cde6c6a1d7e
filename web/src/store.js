// The state of the page: a pure fold of the server's frames and of what the user does here.
//
//   link       "connecting" | "open" | "lost" | "denied"
//   hello      the welcome: project, model, approve, ephemeral, newel, server, and the host as it is now
//   tabs       as the server has them, with every field set
//   talks      by tab id, for the tabs that are read
//   pending    by tab id: what was said here and is not part of the conversation yet: {id, text, state, before}
//   stopping   by tab id: the run that was asked to stop
//   active     the id of the tab that is shown, or null

import { addEvent, addHistory, addSoFar, cutBefore, emptyTalk, fromSnapshot, withQuestions, withQueue } from "./transcript.js";

export const initialState = () => ({
  link: "connecting",
  hello: null,
  tabs: [],
  servers: [],
  talks: {},
  pending: {},
  stopping: {},
  active: null,
});

const tabOf = (given) => ({
  model: null,
  contract: null,
  run: null,
  reason: "",
  log: null,
  folder: "",
  activity: 0,
  queued: 0,
  ...given,
});

const serverOf = (given) => ({
  reason: "",
  stderr: "",
  ...given,
  tools: (given.tools ?? []).map((tool) => ({ description: "", enabled: true, ...tool })),
});

export const isBusy = (tab) => tab.status === "running" || tab.status === "waiting";

/** The state after a frame from the server, or an action of the page (its type begins with "page/"). */
export function fold(state, frame) {
  const step = STEPS[frame.type];
  return step ? step(state, frame) : state;
}

const STEPS = {
  welcome(state, frame) {
    const restarted = state.hello && state.hello.server !== frame.server;
    const talks = restarted ? mapValues(state.talks, (talk) => ({ ...talk, live: null })) : state.talks;
    const next = { ...state, hello: frame, talks, servers: (frame.servers ?? []).map(serverOf) };
    return withTabs(next, frame.tabs ?? []);
  },
  tabs: (state, frame) => withTabs(state, frame.tabs ?? []),
  model: (state, { model: { name, where = "", problem = "" } }) => ({ ...state, hello: { ...state.hello, model: name, where, problem } }),
  host: (state, { host }) => ({ ...state, hello: { ...state.hello, host } }),
  servers: (state, frame) => ({ ...state, servers: (frame.servers ?? []).map(serverOf) }),
  snapshot(state, frame) {
    return settled(withTalk(state, frame.tab, () => fromSnapshot(frame.snapshot)), frame.tab);
  },
  event(state, frame) {
    const next = withTalk(state, frame.tab, (talk) => addEvent(talk, frame.run, frame.seq ?? 0, frame.event));
    return frame.event.type === "message_end" ? settled(next, frame.tab) : next;
  },
  soFar: (state, frame) => withTalk(state, frame.tab, (talk) => addSoFar(talk, frame.soFar ?? {})),
  totals: (state, frame) =>
    withTalk(state, frame.tab, (talk) => ({ ...talk, totals: { ...talk.totals, ...frame.totals } })),
  queue: (state, frame) =>
    settled(withTalk(state, frame.tab, (talk) => withQueue(talk, frame.messages ?? [])), frame.tab),
  questions: (state, frame) => withTalk(state, frame.tab, (talk) => withQuestions(talk, frame.questions ?? [])),

  "page/link": (state, { link }) => (link === state.link ? state : { ...state, link }),
  "page/show": (state, { tab }) => ({ ...state, active: tab }),
  "page/read": (state, { tab }) =>
    state.talks[tab] ? state : { ...state, talks: { ...state.talks, [tab]: emptyTalk() } },
  "page/forget": (state, { tab }) => ({ ...state, talks: without(state.talks, tab) }),
  "page/history": (state, { tab, messages, more }) =>
    withTalk(state, tab, (talk) => addHistory(talk, messages ?? [], more ?? false)),
  "page/say": (state, { tab, message }) => {
    const cut = message.before ? withTalk(state, tab, (talk) => cutBefore(talk, message.before)) : state;
    const others = (cut.pending[tab] ?? []).filter((each) => each.id !== message.id);
    return withPending(cut, tab, [...others, { kind: "pending", state: "sending", ...message }]);
  },
  "page/said": (state, { tab, id, state: how }) =>
    withPending(
      state,
      tab,
      (state.pending[tab] ?? []).map((each) => (each.id === id ? { ...each, state: how } : each)),
    ),
  "page/unsay": (state, { tab, id }) =>
    withPending(state, tab, (state.pending[tab] ?? []).filter((each) => each.id !== id)),
  "page/stop": (state, { tab, now }) => ({
    ...state,
    stopping: { ...state.stopping, [tab]: now ? "now" : "soon" },
  }),
  "page/stopFailed": (state, { tab }) => ({ ...state, stopping: without(state.stopping, tab) }),
};

/** The tabs, and nothing of those that are gone. */
function withTabs(state, given) {
  const tabs = given.map(tabOf);
  const here = new Map(tabs.map((tab) => [tab.id, tab]));
  const kept = (values) => Object.fromEntries(Object.entries(values).filter(([id]) => here.has(id)));
  const busy = ([id]) => isBusy(here.get(id) ?? { status: "" });
  return {
    ...state,
    tabs,
    talks: kept(state.talks),
    pending: kept(state.pending),
    stopping: Object.fromEntries(Object.entries(state.stopping).filter(busy)),
  };
}

function withTalk(state, tab, change) {
  const talk = state.talks[tab];
  if (!talk) return state;
  const next = change(talk);
  return next === talk ? state : { ...state, talks: { ...state.talks, [tab]: next } };
}

/** What was said here is pending until the conversation, or what waits for it, has it. */
function settled(state, tab) {
  const pending = state.pending[tab];
  const talk = state.talks[tab];
  if (!pending?.length || !talk) return state;
  const has = new Set([...talk.entries.map((entry) => entry.id), ...talk.queue.map(({ message }) => message.id)]);
  const rest = pending.filter((each) => !has.has(each.id));
  return rest.length === pending.length ? state : withPending(state, tab, rest);
}

function withPending(state, tab, messages) {
  const pending = messages.length ? { ...state.pending, [tab]: messages } : without(state.pending, tab);
  return { ...state, pending };
}

const without = (values, key) => Object.fromEntries(Object.entries(values).filter(([each]) => each !== key));
const mapValues = (values, change) => Object.fromEntries(Object.entries(values).map(([key, value]) => [key, change(value)]));

/** Holds the state; whoever subscribes is told after each change. */
export function createStore() {
  let state = initialState();
  const readers = new Set();
  return {
    get: () => state,
    dispatch(frame) {
      const next = fold(state, frame);
      if (next === state) return;
      state = next;
      for (const reader of readers) reader(state);
    },
    subscribe(reader) {
      readers.add(reader);
      return () => readers.delete(reader);
    },
  };
}
