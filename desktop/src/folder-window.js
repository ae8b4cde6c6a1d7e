// The window of a folder, and its server.

import { createHash } from "node:crypto";

import { Activity } from "./activity.js";
import { Backend, StartError } from "./backend.js";
import { findCommand, NoCommandError } from "./command.js";
import { fitBounds } from "./desktop-state.js";
import { ended, helpUrl, notInstalled, notStarted, starting, startingSlowly } from "./help-page.js";
import { LiveTabs } from "./live-tabs.js";
import { plain } from "./log-tail.js";
import { destinationOf, isPermitted } from "./navigation.js";
import { choosePort } from "./port.js";

/**
 * @typedef {import("./app.js").Electron} Electron
 * @typedef {import("./activity.js").Notice} Notice
 * @typedef {import("./backend.js").Address} Address
 * @typedef {import("./help-page.js").Help} Help
 * @typedef {object} Given
 * @property {string} folder
 * @property {string | null} checkout
 * @property {import("./command.js").Environment} env
 * @property {import("./desktop-state.js").DesktopState} state
 * @property {{ openFolder: () => void, quit: () => void }} actions
 * @property {() => void} onWaiting
 * @property {() => void} onClosed
 */

const SLOW = 5_000; // ms until a start is called slow
const SAVE_DELAY = 500;
const CRASH_INTERVAL = 10_000; // a page that crashes twice in this time is not loaded again by itself

export class FolderWindow {
  /** @type {Set<Backend>} the servers that have not ended */
  static #backends = new Set();

  /** End all servers; resolves once they have ended. */
  static running = () => [...FolderWindow.#backends].map((backend) => backend.stop());

  #activity = new Activity();
  /** @type {Address | null} */
  #address = null;
  /** @type {Backend | null} */
  #backend = null;
  /** @type {LiveTabs | null} */
  #tabs = null;
  #isHelp = true;
  #isStarting = false;
  #isCountInTitle = false;
  #lastCrash = -Infinity;
  /** @type {Set<import("electron").Notification>} shown ones, which must not be garbage-collected */
  #notifications = new Set();
  /** @type {NodeJS.Timeout | undefined} */
  #saving;

  /** @param {Electron} electron @param {Given} given */
  constructor(electron, given) {
    this.electron = electron;
    this.given = given;
    this.folder = given.folder;
    const { bounds, isMaximized } = given.state.of(this.folder);
    const screens = [electron.screen.getPrimaryDisplay(), ...electron.screen.getAllDisplays()].map((display) => display.workArea);
    this.window = new electron.BrowserWindow({
      ...fitBounds(bounds, screens),
      minWidth: 400,
      minHeight: 300,
      title: "Newel",
      backgroundColor: electron.nativeTheme.shouldUseDarkColors ? "#16181b" : "#fbfbf9",
      webPreferences: {
        nodeIntegration: false, contextIsolation: true, sandbox: true, webSecurity: true, webviewTag: false,
        partition: `persist:${createHash("sha256").update(this.folder).digest("hex").slice(0, 32)}`, // cookies of this folder only
      },
    });
    if (isMaximized) this.window.maximize();
    given.state.remember(this.folder, {});
    this.#followWindow();
    this.#guardPage();
  }

  get isFocused() {
    return this.window.isFocused();
  }

  get waiting() {
    return this.#activity.waiting;
  }

  show() {
    if (this.window.isMinimized()) this.window.restore();
    this.window.show();
    this.window.focus();
  }

  /** Start the server and show its page, or the page that says why there is none. */
  async start() {
    if (this.#backend) await this.#backend.stop(); // it has ended, or its page has
    if (this.#isStarting || this.window.isDestroyed()) return; // a second click on Retry
    this.#isStarting = true;
    try {
      await this.#start();
    } finally {
      this.#isStarting = false;
    }
  }

  async #start() {
    const port = await choosePort(this.given.state.of(this.folder).port);
    const backend = this.#makeBackend(port);
    if (!backend) return;
    this.#backend = backend;
    FolderWindow.#backends.add(backend);
    this.#showHelp(starting(this.folder));
    const slow = setTimeout(() => this.#showHelp(startingSlowly(this.folder, backend.log)), SLOW);
    try {
      const address = await backend.start();
      clearTimeout(slow);
      if (!this.window.isDestroyed()) this.#showWorkbench(address);
    } catch (error) {
      clearTimeout(slow);
      this.#forget(backend);
      const reason = error instanceof StartError ? error.message : String(error);
      this.#showHelp(notStarted(this.folder, reason, backend.log));
    }
  }

  /** @param {number} port */
  #makeBackend(port) {
    const { checkout, env } = this.given;
    try {
      const command = findCommand({ checkout, folder: this.folder, port, env });
      const backend = new Backend({ command, onEnd: (reason) => this.#ended(backend, reason) });
      return backend;
    } catch (error) {
      if (!(error instanceof NoCommandError)) throw error;
      this.#showHelp(notInstalled(this.folder, error.isCheckout));
      return null;
    }
  }

  /** @param {Address} address */
  #showWorkbench(address) {
    this.given.state.remember(this.folder, { port: address.port });
    this.#address = address;
    this.#isHelp = false;
    this.#load(`${address.origin}/#token=${address.token}`);
    this.#tabs = new LiveTabs({ ...address, onTabs: (tabs) => this.#tabsChanged(tabs) });
  }

  /** The server has ended by itself. @param {Backend} backend @param {string} reason */
  #ended(backend, reason) {
    backend.stop().finally(() => this.#forget(backend)); // what it has left running
    this.#showHelp(ended(this.folder, `Newel ${reason}.`, backend.log));
    this.given.onWaiting();
  }

  /** End the server, and say why. @param {string} reason */
  async #end(reason) {
    const backend = this.#backend;
    this.#showHelp(ended(this.folder, reason, backend?.log ?? ""));
    if (!backend) return;
    await backend.stop();
    this.#forget(backend);
  }

  /** @param {Backend} backend */
  #forget(backend) {
    FolderWindow.#backends.delete(backend);
    if (this.#backend === backend) this.#backend = null;
  }

  /** @param {Help} help */
  #showHelp(help) {
    this.#tabs?.close();
    this.#tabs = null;
    this.#activity = new Activity();
    this.#address = null;
    this.#isHelp = true;
    this.#load(helpUrl(help));
  }

  /** @param {string} url */
  #load(url) {
    if (this.window.isDestroyed()) return;
    this.window.loadURL(url).catch(() => {}); // another page was loaded meanwhile, or the server has ended
  }

  // -- the page ---------------------------------------------------------------------------------------------

  /** Keep the page on its server; links to elsewhere open in the browser. */
  #guardPage() {
    const { webContents } = this.window;
    const { session } = webContents;
    const origin = () => this.#address?.origin ?? null;
    webContents.on("will-navigate", (event) => this.#follow(event.url) || event.preventDefault());
    webContents.on("will-redirect", (event) => this.#follow(event.url) || event.preventDefault());
    webContents.on("will-attach-webview", (event) => event.preventDefault());
    webContents.setWindowOpenHandler(({ url }) => {
      this.#follow(url);
      return { action: "deny" };
    });
    session.setPermissionRequestHandler((_contents, permission, allow, { requestingUrl }) => allow(isPermitted(permission, requestingUrl, origin())));
    session.setPermissionCheckHandler((_contents, permission, requester) => isPermitted(permission, requester, origin()));
    webContents.on("render-process-gone", (_event, { reason }) => this.#crashed(reason));
    this.window.on("page-title-updated", (event, title) => {
      event.preventDefault();
      this.#showTitle(title);
    });
  }

  /** Whether the page may go to an address itself; otherwise what it stands for is done. @param {string} url */
  #follow(url) {
    const destination = destinationOf(url, { origin: this.#address?.origin ?? null, isHelp: this.#isHelp });
    if (destination.kind === "external") this.electron.shell.openExternal(destination.url);
    if (destination.kind === "action") this.#act(destination.name);
    return destination.kind === "own";
  }

  /** @param {string} name */
  #act(name) {
    if (name === "retry") this.start();
    else if (name === "open-folder") this.given.actions.openFolder();
    else if (name === "quit") this.given.actions.quit();
  }

  /** The page's process has ended; the server has not. @param {string} reason */
  #crashed(reason) {
    if (reason === "clean-exit" || !this.#address) return;
    const again = performance.now() - this.#lastCrash > CRASH_INTERVAL;
    this.#lastCrash = performance.now();
    if (again) this.#load(`${this.#address.origin}/#token=${this.#address.token}`);
    else this.#end(`The page's process has ended (${reason}).`);
  }

  /** As the page's own shortcut. */
  newChat() {
    if (this.#isHelp) return;
    this.show();
    for (const type of /** @type {const} */ (["keyDown", "keyUp"])) {
      this.window.webContents.sendInputEvent({ type, keyCode: "N", modifiers: ["alt"] });
    }
  }

  // -- what waits -------------------------------------------------------------------------------------------

  /** @param {import("./activity.js").Tab[]} tabs */
  #tabsChanged(tabs) {
    const notices = this.#activity.update(tabs);
    if (this.window.isDestroyed()) return;
    if (!this.window.isFocused()) for (const notice of notices) this.#notify(notice);
    this.given.onWaiting();
  }

  /** @param {Notice} notice */
  #notify({ tab, title, body, isQuestion }) {
    if (isQuestion) this.window.flashFrame(true);
    if (!this.electron.Notification.isSupported()) return;
    const notification = new this.electron.Notification({ title, body });
    this.#notifications.add(notification);
    notification.on("click", () => {
      this.show();
      if (this.#address) this.#load(`${this.#address.origin}/#/tab/${encodeURIComponent(tab)}`);
    });
    notification.on("close", () => this.#notifications.delete(notification));
    notification.show();
  }

  /** @param {boolean} isInTitle whether the title has the number of tabs that wait */
  showWaiting(isInTitle) {
    this.#isCountInTitle = isInTitle;
    if (!this.window.isDestroyed()) this.#showTitle(this.window.webContents.getTitle());
  }

  /** @param {string} title */
  #showTitle(title) {
    const count = this.#isCountInTitle && this.waiting > 0 ? `(${this.waiting}) ` : "";
    this.window.setTitle(`${count}${plain(title) || "Newel"}`);
  }

  // -- the window -------------------------------------------------------------------------------------------

  #followWindow() {
    const { window } = this;
    const saveSoon = () => {
      clearTimeout(this.#saving);
      this.#saving = setTimeout(() => this.#saveBounds(), SAVE_DELAY);
    };
    window.on("resize", saveSoon);
    window.on("move", saveSoon);
    window.on("focus", () => window.flashFrame(false));
    window.on("close", () => this.#saveBounds());
    window.on("closed", () => {
      clearTimeout(this.#saving);
      this.#tabs?.close();
      const backend = this.#backend;
      backend?.stop().finally(() => this.#forget(backend));
      this.given.onClosed();
    });
  }

  #saveBounds() {
    clearTimeout(this.#saving);
    if (this.window.isDestroyed()) return;
    this.given.state.remember(this.folder, { bounds: this.window.getNormalBounds(), isMaximized: this.window.isMaximized() });
  }
}
