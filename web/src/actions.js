// What a user can do. Each action shows at once, asks the server, and says so if that failed.

import { newId } from "./dom.js";
import { sessionStore } from "./local-storage.js";

export function createActions({ connection, store, toasts, show, refresh }) {
  /** Ask; on failure say so, with Retry. Resolves to the reply or null. */
  async function ask(type, fields, { what, quiet = false } = {}) {
    try {
      return await connection.request(type, fields);
    } catch (error) {
      if (!quiet) toasts.failed(`${what}: ${error.message}`, () => ask(type, fields, { what }));
      return null;
    }
  }

  async function open(type, fields, what) {
    try {
      const reply = await connection.request(type, fields);
      show(reply.tab);
    } catch (error) {
      toasts.failed(`${what}: ${error.message}`, () => open(type, fields, what));
    }
  }

  // What was said and not acknowledged outlives a reload of the page: the same id again is the same message.
  function outbox(change) {
    sessionStore.set("outbox", change(sessionStore.get("outbox") ?? []));
  }

  async function deliver(tab, message) {
    store.dispatch({ type: "page/send", tab, message });
    const { id, text, attachments = [], before } = message;
    outbox((sent) => [...sent.filter((each) => each.message.id !== id), { tab, message: { id, text, attachments, before } }]);
    const request = { tab, messageId: id, text, ...(attachments.length && { attachments }), ...(before && { before }) };
    const how = await connection.request("send", request).then(() => "queued", (error) => error);
    outbox((sent) => sent.filter((each) => each.message.id !== id));
    if (how === "queued") store.dispatch({ type: "page/sendResult", tab, id, state: "queued" });
    else {
      store.dispatch({ type: "page/sendResult", tab, id, state: "failed" });
      toasts.failed(`The message was not sent: ${how.message}`);
    }
  }

  return {
    refresh,
    refuse(words) {
      toasts.failed(words);
      return false;
    },
    newChat: () => open("openChat", {}, "No chat was opened"),
    newAgent: () => open("openAgent", {}, "No agent was opened"),
    openSession: (session) => open("openChat", { session }, "The conversation was not opened"),
    close: (tab) => ask("closeTab", { tab }, { what: "The tab was not closed" }),
    rename: (tab, title) => ask("renameTab", { tab, title }, { what: "The tab was not renamed" }),
    setModel: (tab, model) => ask("setModel", { tab, model }, { what: "The model was not changed" }),
    retry: (tab) => ask("retry", { tab }, { what: "Could not go on" }),
    start: (tab, contract) => ask("start", { tab, contract }, { what: "The agent was not started" }),
    send: (tab, text, { attachments = [], before } = {}) => deliver(tab, { id: newId(), text, attachments, before }),
    resend: (tab, message) => deliver(tab, { ...message, state: "sending" }),
    /** Resolves to the reply, or null where it was sent already. */
    withdraw: (tab, messageId) => ask("withdraw", { tab, messageId }, { what: "The message was not withdrawn" }),
    sendNow: (tab, messageId) => ask("sendNow", { tab, messageId }, { what: "The message was not sent" }),
    discard: (tab, id) => store.dispatch({ type: "page/discard", tab, id }),
    async stop(tab, now) {
      store.dispatch({ type: "page/stop", tab, now });
      const done = await ask("stop", { tab, now }, { what: "The run was not stopped" });
      if (!done) store.dispatch({ type: "page/stopFailed", tab });
    },
    /** Resolves to null, or to why the answer was not taken. */
    answer: (tab, question, answer) =>
      connection.request("answer", { tab, question: question.id, answer }).then(() => null, (error) => error.message),
    async older(tab) {
      const before = store.get().transcripts[tab]?.entries.find((entry) => entry.message)?.id;
      const reply = before && (await ask("getHistory", { tab, before }, { what: "Earlier messages did not come" }));
      if (reply) store.dispatch({ type: "page/history", tab, messages: reply.messages, more: reply.more });
    },
    sessions: async () => (await connection.request("getSessions")).sessions ?? [],
    models: async () => (await connection.request("getModels")).models ?? [],
    /** Resolves to the names of models of which one has to be chosen first, none once that is done. Rejects with words. */
    useServer: async (fields) => (await connection.request("useServer", fields)).models ?? [],
    setServer: (server, change) => ask("setServer", { server, ...change }, { what: `${server} was not changed` }),
    setTool: (server, tool, enabled) => ask("setTool", { server, tool, enabled }, { what: `${tool} was not switched` }),
    restartServer: (server) => ask("restartServer", { server }, { what: `${server} was not restarted` }),
    /** Say again what a page before this one had not had acknowledged. */
    resendUnacknowledged() {
      for (const { tab, message } of sessionStore.get("outbox") ?? []) {
        if (store.get().tabs.some((each) => each.id === tab)) deliver(tab, message);
      }
    },
  };
}
