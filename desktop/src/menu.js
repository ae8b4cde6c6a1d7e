// The menu of the application, as a template for Electron.

import { homedir } from "node:os";

/**
 * @typedef {import("electron").MenuItemConstructorOptions} Item
 * @typedef {object} Actions
 * @property {() => void} newChat
 * @property {() => void} openFolder
 * @property {(folder: string) => void} openRecent
 * @property {() => void} clearRecent
 * @property {(() => void) | null} openDocumentation  null in a packaged application, which has none
 */

/** @param {{ isMac: boolean, recent: string[], actions: Actions }} given @returns {Item[]} */
export function menuTemplate({ isMac, recent, actions }) {
  /** @type {Item} */
  const separator = { type: "separator" };
  const appMenu = /** @type {Item[]} */ (isMac ? [{ role: "appMenu" }] : []);
  return [
    ...appMenu,
    {
      label: "&File",
      submenu: [
        { id: "new-chat", label: "New Chat", accelerator: "CmdOrCtrl+N", click: actions.newChat },
        separator,
        { id: "open-folder", label: "Open Folder…", accelerator: "CmdOrCtrl+O", click: actions.openFolder },
        { id: "open-recent", label: "Open Recent", submenu: recentItems(recent, actions) },
        separator,
        { role: "close", label: "Close Window" },
        ...(isMac ? [] : [separator, /** @type {Item} */ ({ role: "quit" })]),
      ],
    },
    { role: "editMenu" },
    {
      label: "&View",
      submenu: [
        { role: "reload" }, separator, { role: "resetZoom" }, { role: "zoomIn" }, { role: "zoomOut" }, separator,
        { role: "togglefullscreen" }, { role: "toggleDevTools" },
      ],
    },
    { role: "windowMenu" },
    ...(actions.openDocumentation
      ? [/** @type {Item} */ ({ role: "help", submenu: [{ id: "documentation", label: "Documentation", click: actions.openDocumentation }] })]
      : []),
  ];
}

/** @param {string[]} recent @param {Actions} actions @returns {Item[]} */
function recentItems(recent, actions) {
  if (recent.length === 0) return [{ label: "No folders yet", enabled: false }];
  const folders = recent.map((folder) => ({ label: labelOf(folder), click: () => actions.openRecent(folder) }));
  return [...folders, { type: "separator" }, { id: "clear-recent", label: "Clear", click: actions.clearRecent }];
}

/** A folder as a menu shows it; `&` would mark a key. @param {string} folder */
function labelOf(folder) {
  const home = homedir();
  const short = folder.startsWith(`${home}/`) ? `~${folder.slice(home.length)}` : folder;
  return short.replaceAll("&", "&&");
}
