// The user's actions. Each shows its effect at once, sends a request to the server, and reports a failure.

import { newId } from "./format.js";
import { sessionStore } from "./local-storage.js";
import { request } from "./page-login.js";

const HTTP_TIMEOUT = 20_000; // ms
const MAX_QUERY = 400; // characters of a query that the server takes

export function createActions({ connection, store, toasts, show, refresh }) {
  let trustTurn = 0; // counts the requests about trust

  /** Send a request and report a failure, by default with Retry. Resolves to the reply or null. */
  async function ask(type, fields, { what, again = true } = {}) {
    try {
      return await connection.request(type, fields);
    } catch (error) {
      toasts.failed(`${what}: ${error.message}`, again && (() => ask(type, fields, { what })));
      return null;
    }
  }

  /** A request to the HTTP API. Resolves to its answer; throws an Error with the server's words. */
  async function fetchJson(path, body) {
    const init = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    const answer = await request(path, { ...init, signal: AbortSignal.timeout(HTTP_TIMEOUT) }).catch(() => {
      throw new Error("Not connected to Newel.");
    });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(said.error?.message ?? `The server answered ${answer.status}.`);
    return said;
  }

  /** Resolves to what of the project waits for trust after a request about it. Rejects with a message for the user. */
  async function showTrust(asking) {
    const turn = ++trustTurn;
    const trust = await asking;
    if (turn === trustTurn) store.dispatch({ type: "page/trust", trust }); // an earlier request may be answered later
    return trust;
  }

  async function open(type, fields, what) {
    try {
      const reply = await connection.request(type, fields);
      show(reply.tab);
    } catch (error) {
      toasts.failed(`${what}: ${error.message}`, () => open(type, fields, what));
    }
  }

  /** Change a setting of a chat, or with no `tab` choose it for the next one. */
  function set(tab, type, fields, chosen, what) {
    return tab ? ask(type, { tab, ...fields }, { what }) : store.dispatch({ type: "page/newChat", chosen });
  }

  // Messages that were not acknowledged survive a reload of the page, also those that were refused. The server treats a repeated id as the same message.
  const outbox = () => sessionStore.get("outbox") ?? [];
  const forget = (id) => sessionStore.set("outbox", outbox().filter((each) => each.message.id !== id));
  const keep = (tab, { id, text, attachments, before, state }) =>
    sessionStore.set("outbox", [...outbox().filter((each) => each.message.id !== id), { tab, message: { id, text, attachments, before, state } }]);

  async function deliver(tab, message) {
    store.dispatch({ type: "page/send", tab, message });
    const { id, text, attachments = [], before } = message;
    keep(tab, message);
    const request = { tab, messageId: id, text, typed: true, ...(attachments.length && { attachments }), ...(before && { before }) };
    const how = await connection.request("send", request).then(() => "queued", (error) => error);
    if (how === "queued") {
      forget(id);
      store.dispatch({ type: "page/sendResult", tab, id, state: "queued" });
    } else {
      keep(tab, { ...message, state: "failed" });
      store.dispatch({ type: "page/sendResult", tab, id, state: "failed" });
      if (before) connection.request("watch", { tab }).catch(() => {}); // a new snapshot has what the edit was to replace
      toasts.failed(`Could not send the message: ${how.message}`);
    }
  }

  return {
    refresh,
    refuse(words) {
      toasts.failed(words);
      return false;
    },
    newChat: () => open("openChat", {}, "Could not open a chat"),
    /** Open a chat with what was chosen for it, and send its first message. Resolves to false if the chat could not be opened. */
    async startChat(text, attachments) {
      const reply = await ask("openChat", store.get().newChat, { what: "Could not open a chat", again: false });
      if (!reply) return false;
      deliver(reply.tab, { id: newId(), text, attachments });
      store.dispatch({ type: "page/newChat" });
      show(reply.tab);
      return true;
    },
    newAgent: () => open("openAgent", {}, "Could not open an agent"),
    openSession: (session) => open("openChat", { session }, "Could not open the conversation"),
    close: (tab) => ask("closeTab", { tab }, { what: "Could not close the tab" }),
    rename: (tab, title) => ask("renameTab", { tab, title }, { what: "Could not rename the tab" }),
    setModel: (tab, model) => set(tab, "setModel", { model }, { model }, "Could not change the model"),
    setAgentMode: (tab, mode) => set(tab, "setAgentMode", { mode }, { agentMode: mode, model: null }, "Could not change the agent mode"),
    setApprove: (tab, mode) => set(tab, "setApprove", { mode }, { approve: mode }, "Could not change the approval mode"),
    setThinking: (tab, level) => set(tab, "setThinking", { level }, { thinking: level }, "Could not change how much the model thinks"),
    /** Resolves to the reply, or null if the conversation stayed where it is. */
    switchBranch: (tab, message, { before = false } = {}) => ask("switchBranch", { tab, message, before }, { what: "Could not change the conversation" }),
    retry: (tab) => ask("retry", { tab }, { what: "Could not continue" }),
    start: (tab, contract) => ask("start", { tab, contract }, { what: "Could not start the agent" }),
    send: (tab, text, { attachments = [], before } = {}) => deliver(tab, { id: newId(), text, attachments, before }),
    resend: (tab, message) => deliver(tab, { ...message, state: "sending" }),
    /** Resolves to the reply, or null if the message was already sent. */
    withdraw: (tab, messageId) => ask("withdraw", { tab, messageId }, { what: "Could not withdraw the message" }),
    sendNow: (tab, messageId) => ask("sendNow", { tab, messageId }, { what: "Could not send the message" }),
    discard(tab, id) {
      forget(id);
      store.dispatch({ type: "page/discard", tab, id });
    },
    async stop(tab, now) {
      store.dispatch({ type: "page/stop", tab, now });
      const done = await ask("stop", { tab, now }, { what: "Could not stop the run" });
      if (!done) store.dispatch({ type: "page/stopFailed", tab });
    },
    /** Resolves to null, or to the reason why the answer was rejected. */
    answer: (tab, question, answer) =>
      connection.request("answer", { tab, question: question.id, answer }).then(() => null, (error) => error.message),
    async loadEarlier(tab) {
      const before = store.get().transcripts[tab]?.entries.find((entry) => entry.message)?.id;
      const reply = before && (await ask("getHistory", { tab, before }, { what: "Could not load earlier messages" }));
      if (reply) store.dispatch({ type: "page/history", tab, messages: reply.messages, more: reply.more });
    },
    /** Load what the subagent of a call did. Rejects with a message for the user. */
    async loadSubagent(tab, call, session) {
      const { messages = [] } = await connection.request("getSubagent", { tab, session });
      store.dispatch({ type: "page/subagent", tab, call, messages });
    },
    sessions: async (query = "") => (await connection.request("getSessions", { query: query.slice(0, MAX_QUERY) })).sessions ?? [],
    prompts: async () => (await connection.request("getPrompts")).prompts ?? [],
    /** What the path of a mention may become; the folder is anywhere. */
    paths: async (part) => (await connection.request("getPaths", { part })).paths ?? [],
    models: async (tab) => (await connection.request("getModels", { tab })).models ?? [],
    /** Resolves to model names if one has to be chosen first, to none when done. Rejects with a message for the user. */
    useServer: async (fields) => ((await connection.request("useServer", fields)).models ?? []).map(({ name }) => name),
    setServer: (server, change) => ask("setServer", { server, ...change }, { what: `${server} was not changed` }),
    setTool: (server, tool, enabled) => ask("setTool", { server, tool, enabled }, { what: `${tool} was not switched` }),
    usage: ({ by, since, scope }) => fetchJson(`/api/usage?${new URLSearchParams({ by, since, scope })}`),
    permissions: () => fetchJson("/api/permissions"),
    revokePermission: (id) => fetchJson("/api/permissions/revoke", { ids: [id] }),
    loadTrust: () => showTrust(fetchJson("/api/trust")),
    /** Trust or decline what was shown: the server refuses another `digest`. */
    decideTrust: (digest, trusted) => showTrust(fetchJson("/api/trust", { digest, trusted })),
    restartServer: (server) => ask("restartServer", { server }, { what: `${server} was not restarted` }),
    /** Resend the messages that were not acknowledged before this page was loaded, and show those that were refused. */
    resendUnacknowledged() {
      for (const { tab, message } of outbox()) {
        if (!store.get().tabs.some((each) => each.id === tab)) forget(message.id);
        else if (message.state === "failed") store.dispatch({ type: "page/send", tab, message });
        else deliver(tab, message);
      }
    },
  };
}
