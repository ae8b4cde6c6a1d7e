// A stand-in for Electron, whose binary is not needed to test the shell: windows without a screen that record what the shell
// does with them. The shell is checked against Electron's own types (tsconfig.json).

import { EventEmitter } from "node:events";

/** @typedef {(event: string, details?: object) => void} Recorder */

class Session {
  /** @type {any} */
  request = null;
  /** @type {any} */
  check = null;

  setPermissionRequestHandler(/** @type {any} */ handler) {
    this.request = handler;
  }

  setPermissionCheckHandler(/** @type {any} */ handler) {
    this.check = handler;
  }
}

class Contents extends EventEmitter {
  session = new Session();
  title = "";
  /** @type {any} */
  openHandler = null;

  setWindowOpenHandler(/** @type {any} */ handler) {
    this.openHandler = handler;
  }

  getTitle() {
    return this.title;
  }
}

const makeWindow = (/** @type {Recorder} */ record) =>
  class StandinWindow extends EventEmitter {
    static count = 0;
    webContents = new Contents();
    isGone = false;
    hasFocus = false;

    constructor(/** @type {any} */ options) {
      super();
      this.options = options;
      this.number = ++StandinWindow.count;
      this.bounds = { x: 10, y: 10, width: options.width, height: options.height };
      Object.assign(this.webContents, { sendInputEvent: (/** @type {any} */ event) => record("input", event) });
      record("window", { number: this.number, options });
    }

    async loadURL(/** @type {string} */ url) {
      record("load", { number: this.number, url });
    }

    close() {
      this.emit("close");
      this.isGone = true;
      this.emit("closed");
    }

    setTitle(/** @type {string} */ title) {
      record("title", { number: this.number, title });
    }

    flashFrame(/** @type {boolean} */ on) {
      record("flash", { on });
    }

    show() {
      record("show", { number: this.number });
    }

    focus() {
      this.hasFocus = true;
    }

    isDestroyed = () => this.isGone;
    isFocused = () => this.hasFocus;
    isMinimized = () => false;
    isMaximized = () => false;
    maximize = () => record("maximize");
    restore = () => {};
    getNormalBounds = () => this.bounds;
  };

/**
 * @param {{ userData: string, record: Recorder, isFirst?: boolean, chosenFolder?: string, workAreas?: object[] }} given
 * @returns {{ electron: import("../src/app.js").Electron, windows: any[], act: (name: string, ...words: any[]) => void }}
 */
export function makeElectron({ userData, record, isFirst = true, chosenFolder, workAreas = [{ x: 0, y: 0, width: 1280, height: 800 }] }) {
  /** @type {any[]} */
  const windows = [];
  const Window = makeWindow(record);
  const BrowserWindow = class extends Window {
    constructor(/** @type {any} */ options) {
      super(options);
      windows.push(this);
      this.on("closed", () => {
        windows.splice(windows.indexOf(this), 1);
        if (windows.length === 0) app.emit("window-all-closed");
      });
    }
  };
  let isQuitting = false;
  const app = Object.assign(new EventEmitter(), {
    isPackaged: false,
    getPath: () => userData,
    requestSingleInstanceLock: (/** @type {unknown} */ data) => {
      record("lock", { data });
      return isFirst;
    },
    whenReady: async () => {},
    setBadgeCount: (/** @type {number} */ count) => {
      record("badge", { count });
      return false;
    },
    exit(/** @type {number} */ code) {
      record("exit", { code });
      process.exit(code);
    },
    quit() {
      if (isQuitting) return;
      isQuitting = true;
      for (const window of [...windows]) window.close();
      let isHeld = false;
      app.emit("will-quit", { preventDefault: () => (isHeld = true) });
      if (!isHeld) app.exit(0);
    },
  });
  class Notification extends EventEmitter {
    static isSupported = () => true;

    constructor(/** @type {any} */ options) {
      super();
      this.options = options;
      shown.push(this);
    }

    show() {
      record("notification", this.options);
    }
  }
  /** @type {Notification[]} */
  const shown = [];
  /** @type {any} */
  let menu = null;
  const displays = workAreas.map((workArea) => ({ workArea }));
  const electron = /** @type {any} */ ({
    app, BrowserWindow, Notification,
    nativeTheme: { shouldUseDarkColors: false },
    screen: { getPrimaryDisplay: () => displays[0], getAllDisplays: () => displays },
    shell: { openExternal: async (/** @type {string} */ url) => record("external", { url }), openPath: async (/** @type {string} */ path) => record("path", { path }) },
    dialog: {
      showErrorBox: (/** @type {string} */ title, /** @type {string} */ content) => record("error", { title, content }),
      showOpenDialog: async () => {
        record("dialog");
        return { canceled: !chosenFolder, filePaths: chosenFolder ? [chosenFolder] : [] };
      },
    },
    Menu: {
      buildFromTemplate: (/** @type {any} */ template) => template,
      setApplicationMenu(/** @type {any} */ template) {
        menu = template;
        record("menu", { recent: find(template, "open-recent").submenu.map((/** @type {any} */ item) => item.label).filter(Boolean) });
      },
    },
  });
  /** @type {{ [name: string]: (...words: any[]) => void }} */
  const actions = {
    navigate: (url, number = 0) => windows[number].webContents.emit("will-navigate", { url, preventDefault: () => record("prevented", { url }) }),
    open: (url) => record("opened", windows[0].webContents.openHandler({ url })),
    permission: (name, url) => windows[0].webContents.session.request(null, name, (/** @type {boolean} */ is) => record("permission", { name, is }), { requestingUrl: url }),
    crash: (reason) => windows[0].webContents.emit("render-process-gone", {}, { reason }),
    title(title) {
      windows[0].webContents.title = title;
      windows[0].emit("page-title-updated", { preventDefault() {} }, title);
    },
    choose: (id) => find(menu, id).click(),
    recent: (folder) => find(menu, "open-recent").submenu.find((/** @type {any} */ item) => item.label === folder).click(),
    notification: () => shown.at(-1)?.emit("click"),
    start: (folder) => app.emit("second-instance", {}, [], "/", { folder }),
    blur() {
      windows[0].hasFocus = false;
      record("blurred");
    },
    move(bounds) {
      windows[0].bounds = bounds;
      windows[0].emit("move");
    },
    close: (number = 0) => windows[number].close(),
    quit: () => app.quit(),
  };
  return { electron, windows, act: (name, ...words) => actions[name]?.(...words) };
}

/** The item of a menu with an id. @param {any[]} items @param {string} id @returns {any} */
const find = (items, id) => items.flatMap((item) => [item, ...(Array.isArray(item.submenu) ? item.submenu : [])]).find((item) => item.id === id);
