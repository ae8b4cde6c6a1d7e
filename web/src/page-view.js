// The page on the screen: what stands around the panel, and the panel. Each part compares what it is given with what it
// shows, so that a growing text changes nothing but the panel.

import { ConnectionBanner, QuestionBanner } from "./banners.js";
import { fill, h } from "./dom.js";
import { plain, pluralize } from "./format.js";
import { FirstPage } from "./first-page.js";
import { Header } from "./header.js";
import { ToolsPanel } from "./mcp-panel.js";
import { Panel } from "./panel.js";
import { PermissionsDialog } from "./permissions.js";
import { ModelNote, ModelSetup, openSetup } from "./setup.js";
import { isBusy } from "./store.js";
import { Tabs } from "./tabs.js";
import { TrustDialog, TrustNote } from "./trust.js";

export class PageView {
  /** `actions` are those of actions.js; `commands` those of commands.js. */
  constructor({ actions, commands, review, toasts, showTab }) {
    const modelForm = { use: actions.useServer, announce: review.announce };
    this.header = new Header({ commands, columns: review.buttons });
    this.tabs = new Tabs({ show: showTab, close: commands.close, rename: commands.rename });
    this.connectionBanner = new ConnectionBanner();
    this.questionBanner = new QuestionBanner({ showTab, showReview: () => review.toggle("review", true) });
    this.modelNote = new ModelNote({ open: () => openSetup(modelForm) });
    this.modelSetup = new ModelSetup(modelForm);
    this.tools = new ToolsPanel({ actions, close: commands.toggleTools });
    this.permissions = new PermissionsDialog({ actions });
    this.trustNote = new TrustNote({ open: commands.openTrust });
    this.trust = new TrustDialog({
      actions,
      putOff: (trust) => this.trustNote.putOff(trust),
      decided: (words) => {
        review.announce(words);
        this.panel.view?.focus();
      },
    });
    const ofComposer = {
      refuse: actions.refuse, paths: actions.paths, chooseApprove: commands.chooseApprove, chooseThinking: commands.chooseThinking,
      findFiles: (part) => review.api.find(part).then(({ files }) => files),
      chatCommands: async () => [...CHAT_COMMANDS.map(([name, detail, run]) => ({ name, detail, run: () => commands[run]() })), ...(await actions.prompts()).map(
        ({ name, description: detail, takesArguments }) => ({ name: isOurs(name) ? `prompt:${name}` : name, detail, takesArguments }))],
    };
    this.panel = new Panel({
      review,
      firstPage: new FirstPage({
        actions: { ...ofComposer, startChat: actions.startChat, sessions: actions.sessions, openSession: actions.openSession, newAgent: commands.newAgent, findSession: commands.openSession },
        setup: this.modelSetup.el,
      }),
      actions: {
        ...actions, ...ofComposer, close: commands.close, reviewOf: review.reviewOf, openFile: (path) => review.openFile(path),
        ...review.runActions,
      },
    });
    fill(
      document.getElementById("page"),
      h("header", {}, this.header.el),
      h("nav", { "aria-label": "Tabs" }, this.tabs.el),
      this.connectionBanner.el, this.modelNote.el, this.trustNote.el, this.questionBanner.el,
      h("main", {}, review.left, this.panel.el, this.tools.el, review.right),
      toasts.el,
      review.live,
    );
  }

  /** `model` as PageState derives it. */
  update(model) {
    const { hello, tab, tabs, servers, stopping } = model;
    this.connectionBanner.update(model);
    if (!hello) return;
    const title = documentTitle(model);
    if (document.title !== title) document.title = title;
    this.header.update({ hello, tab: tab ?? { kind: "chat", ...model.newChat }, servers, isToolsOpen: this.tools.isOpen, notifications: model.notifications });
    this.tabs.update({ tabs, active: tab?.id, stopping });
    this.tools.update(servers);
    this.permissions.update(model.permissionChanges);
    this.modelSetup.update(hello);
    this.modelNote.update({ hello, hasForm: !tab });
    this.trustNote.update(model.trust);
    this.questionBanner.update(model);
    this.panel.update(model);
  }

  openPermissions({ permissionChanges }) {
    return this.permissions.open({ changes: permissionChanges });
  }

  /** Show or hide the panel of MCP servers; its button gets the focus back. */
  showTools(isOpen, servers) {
    this.tools.setOpen(isOpen, servers);
    if (!isOpen) this.header.focusTools();
  }
}

// Commands of the message box, named as in the terminal: [name, description, the command of commands.js].
const CHAT_COMMANDS = [
  ["approve", "Choose which calls are asked about", "chooseApprove"],
  ["agent-mode", "Choose the agent mode", "chooseAgentMode"],
  ["clear", "Open a new chat", "newChat"],
  ["help", "Keyboard shortcuts", "showKeys"],
  ["model", "Choose the model", "chooseModel"],
  ["permissions", "What agents may do here", "openPermissions"],
  ["resume", "Open an earlier conversation", "openSession"],
  ["review", "Review pending changes", "toggleReview"],
  ["stop", "Stop the run", "stopRun"],
  ["thinking", "Choose how much the model thinks", "chooseThinking"],
  ["tools", "MCP servers and their tools", "toggleTools"],
];
const isOurs = (name) => CHAT_COMMANDS.some(([ours]) => ours === name); // as in the terminal, a template of this name is `/prompt:NAME`

/** "1 question · notes.md · src · newel". */
function documentTitle({ tab, asking, reviewQuestions }) {
  const questions = asking.length + reviewQuestions;
  const name = tab ? [tab.title, tab.kind === "place" && tab.folder].filter(Boolean).map(plain) : [];
  const title = [...name, "newel"].join(" · ");
  if (questions > 0) return `${pluralize(questions, "question")} · ${title}`;
  return tab && isBusy(tab) ? `… ${title}` : title;
}
