// The commands of the page: what buttons, keys and the palette do. A command asks where it has to, then calls an action or
// changes what is shown.

import { AGENT_MODES, APPROVAL_MODES, THINKING_LEVELS } from "./agent-modes.js";
import { askText, confirm } from "./dialog.js";
import { hasDraft } from "./draft-files.js";
import { describeModel, formatTime, plain, pluralize } from "./format.js";
import { openPalette, showKeys } from "./palette.js";
import { pick } from "./picker.js";
import { isBusy, isEmptyChat } from "./store.js";
import { setTheme } from "./theme.js";
import { openUsage } from "./usage.js";

const BLOCKED = "The browser blocks notifications for this address. Allow them in its settings; over a network they need HTTPS.";

/** `view()` is the PageView; it is made after the commands, which it shows. */
export function createCommands({ store, state, actions, router, review, notifications, view }) {
  const activeTab = () => state.tab(store.get().active);
  /** The chat that is shown, or the settings of the next one where no tab is open; null elsewhere. */
  function shownChat() {
    const { hello, newChat } = store.get();
    const tab = activeTab() ?? { id: null, kind: "chat", ...newChat };
    return hello && tab.kind === "chat" ? tab : null;
  }
  const isToolsOpen = () => view().tools.isOpen;

  async function close(id) {
    if (review.has(id)) return review.close(id);
    const { tabs, transcripts } = store.get();
    const tab = tabs.find((each) => each.id === id);
    if (!tab || (await mayClose(tab, transcripts[id]?.queue.length ?? 0))) actions.close(id);
  }

  async function rename(id) {
    if (!id || review.has(id)) return;
    const title = await askText({ title: "Rename tab", value: plain(state.tab(id)?.title ?? "") });
    if (title) actions.rename(id, title);
  }

  async function openSession() {
    const search = async (query) => (await actions.sessions(query)).map(({ id, title, firstText: first, messages, modified }) => ({
      title: plain(title) || "Untitled",
      detail: [first !== title && plain(first), formatTime(1_000 * modified), pluralize(messages ?? 0, "message")].filter(Boolean).join(" · "),
      value: id,
    }));
    const none = (query) => (query ? `No conversation matches “${query}”.` : "No conversations in this project.");
    const id = await pick({ label: "Conversations", placeholder: "Find a conversation", search, none });
    if (id) actions.openSession(id);
  }

  /** Show an empty chat: one without a message and a draft, or else a new one. */
  function newChat() {
    const current = store.get();
    const empty = current.tabs.findLast((tab) => isEmptyChat(current, tab) && !hasDraft(tab.id));
    return empty ? router.show(empty.id) : actions.newChat();
  }

  async function chooseModel() {
    const chat = shownChat();
    if (!chat) return;
    const current = chat.model ?? store.get().hello.model;
    const choices = actions.models(chat.id).then((models) =>
      models.map((model) => ({
        title: plain(model.name),
        detail: [model.name === current && "current", describeModel(model)].filter(Boolean).join(" · "),
        value: model.name, isCurrent: model.name === current,
      })));
    const model = await pick({ label: "Model", placeholder: "Find a model", choices, none: (query) => (query ? "No matches." : "The server lists no models.") });
    if (model) actions.setModel(chat.id, model);
  }

  /** Let the user choose a mode of the chat that is shown; `modes` are [name, description]. */
  async function choose(label, modes, field, set) {
    const chat = shownChat();
    if (!chat) return;
    const current = chat[field] ?? store.get().hello[field];
    const choices = modes.map(([name, about]) => ({ title: name, detail: name === current ? `current · ${about}` : about, value: name, isCurrent: name === current }));
    const chosen = await pick({ label, placeholder: "Find a mode", choices });
    if (chosen) set(chat.id, chosen);
  }

  const chooseAgentMode = () => choose("Agent mode", AGENT_MODES, "agentMode", actions.setAgentMode);
  const chooseApprove = () => choose("Approval mode", APPROVAL_MODES, "approve", actions.setApprove);
  const chooseThinking = () => choose("Thinking", THINKING_LEVELS, "thinking", actions.setThinking);

  /**
   * Escape closes the column that has the focus, or what lies over the page. Only in the conversation it stops the run: the first
   * press before its next request, the second at once.
   */
  function escape() {
    const { active, stopping } = store.get();
    const tab = activeTab();
    const focused = document.activeElement;
    if (review.leaveColumn(focused)) return;
    if (isToolsOpen()) commands.toggleTools();
    else if (review.closeSheet()) return;
    else if (focused !== document.body && !view().panel.el.contains(focused)) return;
    else if (tab && isBusy(tab) && stopping[active] !== "now") actions.stop(active, stopping[active] === "soon");
  }

  function paletteEntries() {
    const tab = activeTab();
    const isRunning = tab && isBusy(tab);
    return [
      { title: "New chat", keys: "Alt+N", run: newChat },
      { title: "New agent", keys: "Alt+G", run: commands.newAgent },
      { title: "Open conversation…", keys: "Alt+O", run: openSession },
      isRunning && { title: "Stop run", keys: "Esc", run: () => actions.stop(tab.id, false) },
      isRunning && { title: "Stop run now", run: () => actions.stop(tab.id, true) },
      shownChat() && { title: "Choose model…", run: chooseModel },
      shownChat() && { title: "Choose agent mode…", run: chooseAgentMode },
      shownChat() && { title: "Choose approval mode…", run: chooseApprove },
      shownChat() && { title: "Choose thinking…", run: chooseThinking },
      tab && !review.has(tab.id) && { title: "Rename tab…", keys: "F2", run: () => rename(tab.id) },
      tab && { title: "Close tab", keys: "Alt+W", run: () => close(tab.id) },
      { title: "Files", keys: "Alt+F", run: commands.toggleFiles },
      { title: "Review", keys: "Alt+V", run: commands.toggleReview },
      { title: "All pending changes", run: () => review.open("pending") },
      { title: "Review requests", run: () => review.open("requests") },
      { title: "Checkpoints", run: () => review.open("checkpoints") },
      store.get().hello?.fleets && { title: "Fleets", detail: "jobs on many machines", run: commands.openFleets },
      { title: "Permissions…", run: commands.openPermissions },
      { title: "Trust…", detail: "hooks, MCP servers, skills", run: commands.openTrust },
      { title: "Usage…", detail: "tokens, cost, time", run: commands.openUsage },
      { title: "MCP tools", keys: "Alt+T", run: commands.toggleTools },
      ...state.tabs().filter(({ id }) => id !== tab?.id).map(({ id, title, hint, kind }) =>
        ({ title: `Go to ${plain(title)}`, detail: hint || kind, run: () => router.show(id) })),
      ...["light", "dark", "auto"].map((name) => ({
        title: `Colour theme: ${name === "auto" ? "system" : name}`,
        run: () => {
          setTheme(name);
          view().header.showTheme();
        },
      })),
      { title: `Notifications: ${notifications.state === "on" ? "off" : "on"}`, detail: "when a run ends or asks", run: commands.toggleNotifications },
      { title: "Keyboard shortcuts", keys: "?", run: showKeys },
    ].filter(Boolean);
  }

  const commands = {
    newChat,
    newAgent: actions.newAgent,
    openSession,
    chooseModel,
    chooseAgentMode,
    chooseApprove,
    chooseThinking,
    close,
    closeActive: () => store.get().active && close(store.get().active),
    rename,
    escape,
    openPalette: () => openPalette(paletteEntries()),
    showKeys,
    stopRun: () => activeTab() && actions.stop(activeTab().id, false),
    focusPanel: () => view().panel.view?.focus(),
    showNth: (index) => router.show(state.tabs()[index]?.id ?? null),
    toggleFiles: () => review.toggle("files"),
    toggleReview: () => review.toggle("review"),
    openFleets: () => review.open("fleets"),
    openUsage: () => openUsage(actions),
    openTrust: () => view().trust.open(),
    openPermissions: () => view().openPermissions(store.get()),
    async toggleNotifications() {
      if ((await notifications.toggle()) === "blocked") actions.refuse(BLOCKED);
    },
    toggleTools() {
      view().showTools(!isToolsOpen(), store.get().servers);
      actions.refresh();
    },
  };
  return commands;
}

/** Ask before a tab is closed where that stops a run or discards text; resolves to whether it may be closed. */
async function mayClose(tab, queued) {
  const discarded = [queued > 0 && pluralize(queued, "queued message"), hasDraft(tab.id) && "your draft"].filter(Boolean);
  const consequences = [
    isBusy(tab) && "The run in this tab will be stopped.",
    discarded.length > 0 && `This discards ${discarded.join(" and ")}.`,
  ].filter(Boolean);
  return consequences.length === 0 || confirm({
    title: `Close ${plain(tab.title)}?`,
    words: [...consequences, "The conversation stays in its session."].join(" "),
    yes: isBusy(tab) ? "Stop and close" : "Close",
  });
}
