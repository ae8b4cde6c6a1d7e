// The page, put together. Data goes one way:
//
//   socket.js ── frames ──▶ page-state.js (store.js) ──▶ router.js ── active tab ──▶ page-view.js
//       ▲                                                                                │
//       └──────── actions.js ◀──────── commands.js ◀──────── keys, buttons ──────────────┘

import { createActions } from "./actions.js";
import { createCommands } from "./commands.js";
import { plain } from "./format.js";
import { showDenied } from "./login.js";
import { Notifications } from "./notifications.js";
import { PageState } from "./page-state.js";
import { PageView } from "./page-view.js";
import { bindKeyboard } from "./palette.js";
import { RenderLoop } from "./render-throttle.js";
import { ReviewLayout } from "./review/review-layout.js";
import { Router } from "./router.js";
import { Connection } from "./socket.js";
import { createStore, isBusy } from "./store.js";
import { Toasts } from "./toast.js";

export function startPage() {
  const store = createStore();
  const toasts = new Toasts();
  const loop = new RenderLoop(render);
  const connection = new Connection({
    url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`,
    onFrame: (frame) => state.applyFrame(frame),
    onLink: (link) => state.setLink(link),
  });
  const showTab = (id) => router.show(id);
  const refresh = () => loop.request();
  const actions = createActions({ connection, store, toasts, show: showTab, refresh });
  const review = new ReviewLayout({
    show: showTab, changed: refresh, openSession: actions.openSession,
    tabs: () => store.get().tabs, activeId: () => store.get().active,
  });
  const state = new PageState({ store, connection, review, onConnect, onDenied: showDenied });
  const router = new Router({ state, store, review });
  const notifications = new Notifications({ show: showTab, changed: refresh });
  const commands = createCommands({ store, state, actions, router, review, notifications, view: () => view });
  const view = new PageView({ actions, commands, review, toasts, showTab });

  function render() {
    const tab = router.resolve();
    state.visit(tab);
    view.update({ ...state.viewModel(tab), notifications: notifications.state });
  }

  /** Look what waits for trust: a run, a pull or another window may have changed it. */
  function lookForTrust() {
    if (store.get().link === "open") actions.loadTrust().catch(() => {}); // the next look may succeed
  }

  function onConnect({ isFirst }) {
    const { notice } = store.get().hello;
    if (isFirst && notice) toasts.failed(plain(notice));
    if (isFirst) actions.resendUnacknowledged();
    lookForTrust();
    router.followAddress();
  }

  let busy = 0;
  store.subscribe(({ tabs }, frame) => {
    notifications.update(tabs); // a hidden page is not rendered
    const before = busy;
    busy = tabs.filter(isBusy).length;
    if (busy < before) lookForTrust();
    loop.request(frame);
  });
  addEventListener("storage", refresh); // another window read something
  addEventListener("focus", lookForTrust);
  bindKeyboard(commands);
  connection.connect();
}
