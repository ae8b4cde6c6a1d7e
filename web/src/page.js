// The page is put together here: connect, show the tabs, and render once per animation frame.

import { AgentView } from "./agent.js";
import { createActions } from "./actions.js";
import { ChatView } from "./chat.js";
import { askText, confirm } from "./dialog.js";
import { fill, h, icon, say, set } from "./dom.js";
import { Header } from "./header.js";
import { awayWords } from "./host-status.js";
import { forgetTabs, kept, keptHere } from "./local-storage.js";
import { isAllowed, showDenied } from "./login.js";
import { listen, openPalette, showKeys } from "./palette.js";
import { added, Pace } from "./render-throttle.js";
import { pick } from "./picker.js";
import { moment, plain, plural } from "./format.js";
import { ModelNote, ModelSetup, openSetup } from "./setup.js";
import { Connection } from "./socket.js";
import { hashOf, idOf } from "./review/routes.js";
import { Shell } from "./review/review-layout.js";
import { createStore, isBusy } from "./store.js";
import { emptyTalk } from "./transcript.js";
import { Tabs } from "./tabs.js";
import { setTheme } from "./theme.js";
import { Toasts } from "./toast.js";
import { ToolsPanel } from "./mcp-panel.js";

const READ_AT_ONCE = 8; // tabs that are followed, so that going back to one shows it at once
const LOST = "Newel does not answer. Reconnecting… What you send waits here. Runs go on if it is only the connection; "
  + "if it has ended, start it again: newel web";
const HIDDEN_RENDER = 250; // ms: a page in the background has no animation frames, but a title

export class Page {
  constructor() {
    this.store = createStore();
    this.views = new Map(); // by tab id
    this.recent = []; // ids of the tabs that are read, the latest first
    this.cancel = null; // of the rendering that is due
    this.mayWait = false; // whether what changes now is no more than a piece of a text
    this.pace = new Pace();
    this.toasts = new Toasts();
    const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`;
    this.connection = new Connection({
      url: address,
      onFrame: (frame) => this.#take(frame),
      onLink: (link) => this.#link(link),
      isAllowed,
    });
    this.actions = createActions({
      connection: this.connection, store: this.store, toasts: this.toasts,
      show: (tab) => this.#show(tab), refresh: () => this.#schedule(),
    });
    this.shell = new Shell({
      show: (id) => this.#show(id), changed: () => this.#schedule(),
      tabs: () => this.store.get().tabs, openSession: (session) => this.actions.openSession(session),
    });
    this.#build();
    this.store.subscribe(() => this.#schedule());
    addEventListener("hashchange", () => this.#route());
    addEventListener("pagehide", () => this.#view()?.hidden());
    addEventListener("storage", () => {
      this.outside = null; // another window read something
      this.#schedule();
    });
    document.addEventListener("visibilitychange", () => {
      this.cancel?.(); // a page in the background gets no frame
      this.cancel = null;
      this.#schedule();
    });
    listen(this.does);
  }

  start() {
    this.connection.connect();
  }

  // -- the parts ------------------------------------------------------------------------------------

  #build() {
    const close = (tab) => (this.shell.has(tab) ? this.shell.close(tab) : this.#close(tab));
    this.does = {
      newChat: this.actions.newChat,
      newAgent: this.actions.newAgent,
      openSession: () => this.#openSession(),
      toggleTools: () => this.#tools(this.tools.el.hidden),
      close: () => this.store.get().active && close(this.store.get().active),
      palette: () => openPalette(this.#commands()),
      keys: showKeys,
      write: () => this.#view()?.focus(),
      showNth: (index) => this.#show(this.#all()[index]?.id ?? null),
      toggleFiles: () => this.shell.toggle("files"),
      toggleReview: () => this.shell.toggle("review"),
      escape: () => this.#escape(),
      chooseModel: () => this.#chooseModel(),
    };
    this.header = new Header({ actions: this.does, columns: this.shell.buttons });
    this.tabs = new Tabs({
      show: (id) => this.#show(id), close, rename: (id) => this.shell.has(id) || this.#rename(id),
    });
    this.tools = new ToolsPanel({ actions: this.actions, close: () => this.#tools(false) });
    this.panel = h("div", { id: "panel", class: "panel-frame", role: "tabpanel" });
    this.banner = h("div", { class: "banner", role: "status", hidden: true });
    this.setup = new ModelSetup({ use: this.actions.useServer, announce: this.shell.announce });
    this.modelNote = new ModelNote({ open: () => openSetup({ use: this.actions.useServer, announce: this.shell.announce }) });
    this.asks = h("div", { class: "banner asks", role: "alert", hidden: true });
    this.page = {
      ...this.actions, close, reviewOf: this.shell.reviewOf,
      review: ({ job_id: run }) => this.shell.reviewRuns([run]), openFile: (path) => this.shell.openFile(path),
    };
    fill(
      document.getElementById("page"),
      h("header", {}, this.header.el),
      h("nav", { "aria-label": "Tabs" }, this.tabs.el),
      this.banner, this.modelNote.el, this.asks,
      h("main", {}, this.shell.left, this.panel, this.tools.el, this.shell.right),
      this.toasts.el,
      this.shell.live,
    );
  }

  // -- the connection -------------------------------------------------------------------------------

  #link(link) {
    this.store.dispatch({ type: "page/link", link });
    if (link === "denied") showDenied();
    if (link === "lost") this.shell.disconnected();
    if (link !== "open") return;
    isAllowed(); // the cookie was enough: the token leaves the address all the same
    for (const id of this.recent) this.#watch(id);
    this.shell.connected(this.store.get().hello.project);
    const { notice } = this.store.get().hello;
    if (!this.hasBegun && notice) this.toasts.failed(plain(notice));
    if (!this.hasBegun) this.actions.sayUnacknowledged();
    this.hasBegun = true;
    this.#route();
  }

  #watch(id) {
    const talk = this.store.get().talks[id];
    if (!talk) return;
    const place = talk.run ? { run: talk.run, after: talk.seq } : {};
    this.connection.request("watch", { tab: id, ...place }).catch(() => {}); // lost: asked again when it is back
  }

  #read(id) {
    const isNew = !this.store.get().talks[id];
    this.recent = [id, ...this.recent.filter((each) => each !== id)];
    this.store.dispatch({ type: "page/read", tab: id });
    if (isNew && this.connection.isOpen) this.#watch(id);
    for (const old of this.recent.splice(READ_AT_ONCE)) {
      this.views.delete(old);
      this.store.dispatch({ type: "page/forget", tab: old });
      if (this.connection.isOpen) this.connection.request("unwatch", { tab: old }).catch(() => {});
    }
  }

  // -- which tab is shown -----------------------------------------------------------------------------

  #route() {
    const place = idOf(location.hash);
    if (place) {
      if (!this.shell.has(place)) this.shell.open(place);
      else this.store.dispatch({ type: "page/show", tab: place });
      this.#schedule();
      return;
    }
    const wanted = /^#\/tab\/(.+)$/.exec(location.hash)?.[1];
    const { tabs } = this.store.get();
    const known = tabs.some((tab) => tab.id === wanted);
    if (known) this.store.dispatch({ type: "page/show", tab: wanted });
    this.#schedule();
  }

  #show(id) {
    this.wanted = id;
    if (!this.#all().some((tab) => tab.id === id)) return; // new: shown as soon as the list has it
    this.wanted = null;
    this.store.dispatch({ type: "page/show", tab: id });
    if (location.hash !== this.#address(id)) location.hash = this.#address(id);
    this.wantsFocus = true;
  }

  #address(id) {
    return this.shell.has(id) ? hashOf(id) : `#/tab/${id}`;
  }

  /** The tabs of the server, and behind them the files and other places that are open here. */
  #all() {
    const tabs = this.store.get().tabs.map((tab) => ({ ...tab, waits: this.shell.waiting(tab.session) }));
    return [...tabs, ...this.shell.tabs()];
  }

  /** The tab to show: the chosen one, or, if that is gone, the one that stands nearest to its place. */
  #active({ active }) {
    const tabs = this.#all();
    const index = tabs.findIndex((tab) => tab.id === active);
    if (index >= 0) {
      this.lastIndex = index;
      return tabs[index];
    }
    const last = keptHere.get("active") ?? kept.get("active");
    return tabs.find((tab) => tab.id === last) ?? tabs[Math.min(this.lastIndex ?? 0, tabs.length - 1)] ?? null;
  }

  // -- rendering --------------------------------------------------------------------------------------

  #take(frame) {
    if (frame.type === "review") {
      this.shell.ledgerChanged(frame.revs);
      return;
    }
    const characters = added(frame);
    if (characters !== null) this.pace.note(characters, performance.now());
    this.mayWait = characters !== null;
    const wasAway = awayWords(this.store.get().hello?.host);
    this.store.dispatch(frame);
    this.mayWait = false;
    if (frame.type === "host" && wasAway && !awayWords(frame.host)) this.shell.hostBack();
  }

  /** Render with the next frame; later, if what changed is no more than a piece of a text, and its pace says so. */
  #schedule() {
    const wait = document.hidden ? HIDDEN_RENDER : this.mayWait ? this.pace.wait(performance.now()) : 0;
    if (this.cancel && (wait > 0 || !this.waits)) return;
    this.cancel?.();
    this.waits = wait > 0;
    if (wait > 0) {
      const timer = setTimeout(() => (document.hidden ? this.#render() : this.#nextFrame()), wait);
      this.cancel = () => clearTimeout(timer);
    } else this.#nextFrame();
  }

  #nextFrame() {
    this.waits = false;
    const frame = requestAnimationFrame((begin) => {
      this.#render();
      setTimeout(() => this.pace.drew(begin, performance.now())); // after the frame: what it lays out and paints counts
    });
    this.cancel = () => cancelAnimationFrame(frame);
  }

  #render() {
    this.cancel = null;
    const state = this.store.get();
    this.#connectionBanner(state);
    if (!state.hello) return;
    if (this.wanted) this.#show(this.wanted);
    const tab = this.#active(this.store.get());
    if (tab && tab.id !== this.store.get().active) {
      this.store.dispatch({ type: "page/show", tab: tab.id });
      history.replaceState(null, "", this.#address(tab.id));
    }
    if (tab && !this.shell.has(tab.id) && !state.talks[tab.id]) this.#read(tab.id);
    if (state.tabs !== this.shownTabs) this.#tabsChanged(state);
    this.#outside(tab, state);
    this.#panel(tab, this.store.get());
  }

  /** What stands around the panel; while a text grows nothing of it changes. */
  #outside(tab, state) {
    const asks = state.tabs.filter((each) => each.status === "waiting" || state.talks[each.id]?.questions.length > 0);
    const toolsOpen = !this.tools.el.hidden;
    const { tabs, servers, stopping, hello } = state;
    const isPlace = this.shell.has(tab?.id);
    const marks = JSON.stringify(this.#all().map(({ id, title, folder, isDirty, waits }) => [id, title, folder, isDirty, waits]));
    const seen = [tab?.id, this.shell.questions, this.shell.asksUnseen, tab?.activity, tab?.model, marks, tabs, servers, stopping, hello, toolsOpen, document.hidden, asks.map((each) => each.id).join()];
    if (this.outside?.every((each, index) => each === seen[index])) return;
    this.outside = seen;
    if (tab && keptHere.get("active") !== tab.id) keptHere.set("active", tab.id);
    if (tab && !isPlace && !document.hidden) this.#seen(tab);
    this.header.update({ hello, tab, servers, toolsOpen });
    this.tabs.update({
      tabs: this.#all().map((each) => (asks.includes(each) ? { ...each, status: "waiting" } : each)),
      active: tab?.id,
      stopping,
      isUnread: (each) => each.id !== tab?.id && each.activity > (kept.get(`seen:${each.id}`) ?? 0),
    });
    this.tools.update(servers);
    this.setup.update(hello);
    this.modelNote.update({ hello, isElsewhere: !tab });
    this.#questions(tab, asks);
  }

  #tabsChanged({ tabs }) {
    this.shownTabs = tabs;
    this.shell.tabsChanged();
    const ids = new Set(tabs.map((each) => each.id));
    forgetTabs(ids);
    this.recent = this.recent.filter((id) => ids.has(id));
    for (const id of this.views.keys()) if (!ids.has(id)) this.views.delete(id);
  }

  #seen(tab) {
    if (kept.get("active") !== tab.id) kept.set("active", tab.id);
    if ((kept.get(`seen:${tab.id}`) ?? 0) < tab.activity) kept.set(`seen:${tab.id}`, tab.activity);
  }

  #view() {
    return this.shell.has(this.shown) ? this.shell.view(this.shown) : this.views.get(this.shown);
  }

  #panel(tab, state) {
    const isPlace = this.shell.has(tab?.id);
    if ((tab?.id ?? "") !== this.shown || (tab && !isPlace && !this.views.has(tab.id))) this.#mount(tab);
    if (!tab) return;
    const view = this.#view();
    if (!isPlace) view.update({ tab, talk: state.talks[tab.id] ?? emptyTalk(), state, changes: this.shell.changesOf(tab.session, state.hello) });
    if (this.wantsFocus) view.focus();
    this.wantsFocus = false;
  }

  #mount(tab) {
    this.#view()?.hidden();
    this.shown = this.shell.shown = tab?.id ?? "";
    if (!tab) {
      this.panel.removeAttribute("aria-labelledby");
      fill(this.panel, this.#nothing());
      return;
    }
    if (!this.shell.has(tab.id) && !this.views.has(tab.id)) {
      const View = tab.kind === "agent" ? AgentView : ChatView;
      this.views.set(tab.id, new View({ tab: tab.id, actions: this.page }));
    }
    set(this.panel, "aria-labelledby", `tab-${tab.id}`);
    fill(this.panel, this.#view().el);
    this.#view().shown();
    this.wantsFocus ||= document.activeElement === document.body;
  }

  #nothing() {
    return h("div", { class: "empty whole" }, this.setup.el,
      h("p", { class: "empty-title" }, "No tab is open."),
      h("p", { class: "dim" }, "In a chat you say step by step what you want; an agent works on its own until its contract is fulfilled."),
      h("div", { class: "row" },
        h("button", { type: "button", class: "primary", onclick: this.does.newChat }, "New chat"),
        h("button", { type: "button", onclick: this.does.newAgent }, "New agent"),
        h("button", { type: "button", onclick: this.does.openSession }, "Earlier conversations")));
  }

  #connectionBanner({ link, hello }) {
    const lost = link === "lost" || (link === "connecting" && hello !== null);
    const words = lost ? LOST : awayWords(hello?.host);
    this.banner.hidden = !words;
    if (words) say(this.banner, words);
  }

  /** Questions that wait, in this tab and in others: in the title, and as a way there. */
  #questions(tab, waiting) {
    const elsewhere = waiting.filter((each) => each.id !== tab?.id);
    const title = tab && [tab.title, tab.kind === "place" && tab.folder].filter(Boolean).map(plain).join(" · ");
    const name = tab ? `${title} · newel` : "newel";
    const running = tab && isBusy(tab) ? "… " : "";
    const questions = waiting.length + this.shell.questions;
    document.title = questions ? `${plural(questions, "question")} · ${name}` : running + name;
    const { asksUnseen } = this.shell;
    this.asks.hidden = elsewhere.length === 0 && !asksUnseen;
    const key = elsewhere.map((each) => each.id + each.title).join() + asksUnseen;
    if (key === this.asked) return;
    this.asked = key;
    const lead = (words, onclick) => h("button", { type: "button", onclick }, icon("question"), `${words} waits for your answer`);
    fill(this.asks, ...elsewhere.map((each) => lead(plain(each.title), () => this.#show(each.id))),
      asksUnseen && lead("The review's agent", () => this.shell.toggle("review", true)));
  }

  // -- commands ---------------------------------------------------------------------------------------

  #commands() {
    const { active } = this.store.get();
    const tabs = this.#all();
    const tab = tabs.find((each) => each.id === active);
    const busy = tab && isBusy(tab);
    const other = tabs.filter((each) => each.id !== active);
    return [
      { title: "New chat", keys: "Alt+N", run: this.does.newChat },
      { title: "New agent", keys: "Alt+A", run: this.does.newAgent },
      { title: "Open an earlier conversation", keys: "Alt+O", run: this.does.openSession },
      busy && { title: "Stop the run", keys: "Esc", run: () => this.actions.stop(active, false) },
      busy && { title: "Stop the run now", run: () => this.actions.stop(active, true) },
      tab?.kind === "chat" && { title: "Choose a model", run: this.does.chooseModel },
      tab && !this.shell.has(active) && { title: "Rename the tab", keys: "F2", run: () => this.#rename(active) },
      tab && { title: "Close the tab", keys: "Alt+W", run: this.does.close },
      { title: "Files", keys: "Alt+F", run: this.does.toggleFiles },
      { title: "Review", keys: "Alt+R", run: this.does.toggleReview },
      { title: "Everything that waits for review", run: () => this.shell.open("pending") },
      { title: "Requests: what was asked of reviews", run: () => this.shell.open("requests") },
      { title: "Checkpoints: what runs changed, and back", run: () => this.shell.open("checkpoints") },
      { title: "MCP tools", keys: "Alt+T", run: this.does.toggleTools },
      ...other.map((each) => ({ title: `Go to ${plain(each.title)}`, detail: each.hint || each.kind, run: () => this.#show(each.id) })),
      ...["light", "dark", "auto"].map((name) => ({
        title: `Colours: ${name === "auto" ? "as the system" : name}`,
        run: () => {
          setTheme(name);
          this.header.showTheme();
        },
      })),
      { title: "Keyboard", keys: "?", run: showKeys },
    ].filter(Boolean);
  }

  #escape() {
    const { tabs, active, stopping } = this.store.get();
    const tab = tabs.find((each) => each.id === active);
    if (!this.tools.el.hidden) this.#tools(false);
    else if (this.shell.closeSheet()) return;
    else if (tab && isBusy(tab) && stopping[active] !== "now") this.actions.stop(active, stopping[active] === "soon");
  }

  #tools(open) {
    this.tools.set(open, this.store.get().servers);
    if (!open) this.header.tools.focus();
    this.#schedule();
  }

  async #close(id) {
    const tab = this.store.get().tabs.find((each) => each.id === id);
    const isRunning = tab && isBusy(tab);
    const waiting = this.store.get().talks[id]?.queue.length ?? 0;
    const lost = [waiting > 0 && plural(waiting, "unsent message"), kept.get(`draft:${id}`) && "your draft"].filter(Boolean);
    const words = [isRunning && "Its run is under way and will be stopped at once.", lost.length > 0 && `This discards ${lost.join(" and ")}.`].filter(Boolean);
    const sure = !tab || words.length === 0 || (await confirm({
      title: `Close ${plain(tab.title)}?`,
      words: [...words, "What was said stays in the session."].join(" "),
      yes: isRunning ? "Stop and close" : "Close",
    }));
    if (sure) this.actions.close(id);
  }

  async #rename(id) {
    const tab = this.store.get().tabs.find((each) => each.id === id);
    const title = tab && (await askText({ title: "Rename the tab", value: plain(tab.title) }));
    if (title) this.actions.rename(id, title);
  }

  async #openSession() {
    const choices = this.actions.sessions().then((sessions) =>
      sessions.map(({ id, title, messages, modified }) => ({
        title: plain(title) || "Untitled",
        detail: `${moment(modified)} · ${plural(messages ?? 0, "message")}`,
        value: id,
      })));
    const id = await pick({
      label: "Earlier conversations", placeholder: "Find a conversation", choices,
      none: "This project has no earlier conversation.",
    });
    if (id) this.actions.openSession(id);
  }

  async #chooseModel() {
    const { active, hello, tabs } = this.store.get();
    const now = tabs.find((tab) => tab.id === active)?.model ?? hello.model;
    const choices = this.actions.models().then((models) =>
      models.map((name) => ({ title: plain(name), detail: name === now ? "in use" : "", value: name })));
    const model = await pick({ label: "Model", placeholder: "Find a model", choices, none: "The server names no model." });
    if (model && active) this.actions.setModel(active, model);
  }
}
