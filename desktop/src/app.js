// The application: one instance, a window per folder, the menu, and the badge.

import { statSync } from "node:fs";
import { join, resolve } from "node:path";

import { DesktopState } from "./desktop-state.js";
import { FolderWindow } from "./folder-window.js";
import { menuTemplate } from "./menu.js";

/**
 * The parts of Electron that the shell uses.
 * @typedef {Pick<typeof import("electron"), "app" | "BrowserWindow" | "dialog" | "Menu" | "nativeTheme" | "Notification" | "screen" | "shell">} Electron
 * @typedef {import("./command.js").Environment} Environment
 */

const DOCUMENTATION = "docs/desktop.md";

/**
 * Run the application. `checkout` is the folder of Newel's checkout, null in a packaged application.
 * @param {Electron} electron @param {{ checkout: string | null, argv: string[], env: Environment }} given
 */
export async function startApp(electron, { checkout, argv, env }) {
  const { app } = electron;
  const requested = folderOf(argv.slice(app.isPackaged ? 1 : 2), process.cwd());
  if (!app.requestSingleInstanceLock({ folder: requested })) {
    app.quit();
    return;
  }
  const desktop = new Desktop(electron, { checkout, env });
  app.on("second-instance", (_event, _argv, _cwd, data) => desktop.openRequested(requestedFolder(data)));
  app.on("activate", () => desktop.openRequested(null));
  app.on("window-all-closed", () => app.quit());
  app.on("will-quit", (event) => desktop.endAll(event));
  for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) process.on(signal, () => app.quit());
  await app.whenReady();
  desktop.updateMenu();
  await desktop.openRequested(requested);
}

/** @param {unknown} data of another start */
function requestedFolder(data) {
  const folder = /** @type {{ folder?: unknown } | null} */ (data)?.folder;
  return typeof folder === "string" ? folder : null;
}

/** The folder among the arguments, null if there is none. @param {string[]} words @param {string} cwd */
function folderOf(words, cwd) {
  const word = words.find((each) => !each.startsWith("-"));
  return word === undefined ? null : resolve(cwd, word);
}

/** @param {string} path */
function isFolder(path) {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

class Desktop {
  /** @type {Map<string, FolderWindow>} */
  #windows = new Map();
  #isEnding = false;

  /** @param {Electron} electron @param {{ checkout: string | null, env: Environment }} given */
  constructor(electron, { checkout, env }) {
    this.electron = electron;
    this.checkout = checkout;
    this.env = env;
    this.state = new DesktopState(join(electron.app.getPath("userData"), "folders.json"));
  }

  /** Open a folder; without one, show the window there is, or open the latest folder, or ask for one. @param {string | null} folder */
  async openRequested(folder) {
    if (folder !== null && isFolder(folder)) return this.open(folder);
    if (folder !== null) this.electron.dialog.showErrorBox("This folder does not exist", folder);
    const [shown] = this.#windows.values();
    if (shown) return shown.show();
    const latest = this.state.recent.find(isFolder) ?? this.checkout;
    if (latest) return this.open(latest);
    if (!(await this.#chooseFolder())) this.electron.app.quit();
  }

  /** @param {string} folder */
  open(folder) {
    const shown = this.#windows.get(folder);
    if (shown) return shown.show();
    const window = new FolderWindow(this.electron, {
      folder, checkout: this.checkout, env: this.env, state: this.state,
      actions: { openFolder: () => this.#chooseFolder(), quit: () => this.electron.app.quit() },
      onWaiting: () => this.#updateBadge(),
      onClosed: () => this.#windows.delete(folder) && this.#updateBadge(),
    });
    this.#windows.set(folder, window);
    this.updateMenu();
    return window.start();
  }

  async #chooseFolder() {
    const { canceled, filePaths: [folder] } = await this.electron.dialog.showOpenDialog({ properties: ["openDirectory", "createDirectory"] });
    if (canceled || !folder) return false;
    this.open(folder);
    return true;
  }

  updateMenu() {
    const { checkout } = this;
    const template = menuTemplate({
      isMac: process.platform === "darwin",
      recent: this.state.recent,
      actions: {
        newChat: () => this.#focused()?.newChat(),
        openFolder: () => this.#chooseFolder(),
        openRecent: (folder) => this.openRequested(folder),
        clearRecent: () => {
          this.state.clear();
          this.updateMenu();
        },
        openDocumentation: checkout === null ? null : () => this.electron.shell.openPath(join(checkout, DOCUMENTATION)),
      },
    });
    this.electron.Menu.setApplicationMenu(this.electron.Menu.buildFromTemplate(template));
  }

  #focused() {
    const windows = [...this.#windows.values()];
    return windows.find((window) => window.isFocused) ?? windows[0];
  }

  /** The number of tabs that wait, at the icon of the application; in the titles where icons have no badge. */
  #updateBadge() {
    const windows = [...this.#windows.values()];
    const waiting = windows.reduce((sum, window) => sum + window.waiting, 0);
    const hasBadge = this.electron.app.setBadgeCount(waiting);
    for (const window of windows) window.showWaiting(!hasBadge);
  }

  /** Before the application ends, end all servers. @param {{ preventDefault: () => void }} event */
  endAll(event) {
    if (this.#isEnding) return;
    this.#isEnding = true;
    event.preventDefault();
    Promise.all(FolderWindow.running()).finally(() => this.electron.app.exit(0));
  }
}
