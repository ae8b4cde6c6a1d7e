import assert from "node:assert/strict";
import { homedir } from "node:os";
import { test } from "node:test";

import { menuTemplate } from "../src/menu.js";

/** @param {Partial<Parameters<typeof menuTemplate>[0]>} [given] */
function make(given = {}) {
  /** @type {string[]} */
  const done = [];
  const actions = {
    newChat: () => done.push("chat"), openFolder: () => done.push("folder"), openRecent: (/** @type {string} */ folder) => done.push(folder),
    clearRecent: () => done.push("clear"), openDocumentation: () => done.push("documentation"),
  };
  const items = menuTemplate({ isMac: false, recent: [], actions, ...given });
  /** @type {any[]} */
  const flat = items.flatMap((item) => [item, ...(Array.isArray(item.submenu) ? item.submenu : [])]);
  return { items, done, find: (/** @type {string} */ id) => flat.find((item) => item.id === id) };
}

test("the menu has the shell's commands", () => {
  const { done, find } = make();
  for (const id of ["new-chat", "open-folder", "documentation"]) find(id).click();
  assert.deepEqual(done, ["chat", "folder", "documentation"]);
  assert.equal(find("new-chat").accelerator, "CmdOrCtrl+N");
});

test("recent folders open, shortened by the home folder and with a plain &", () => {
  const { done, find } = make({ recent: [`${homedir()}/a`, "/r & d"] });
  const items = find("open-recent").submenu;
  assert.deepEqual(items.map((/** @type {any} */ item) => item.label ?? item.type), ["~/a", "/r && d", "separator", "Clear"]);
  items[1].click();
  items[3].click();
  assert.deepEqual(done, ["/r & d", "clear"]);
  assert.equal(make().find("open-recent").submenu[0].enabled, false);
});

test("macOS has its application menu first, and others quit from File", () => {
  const roles = (/** @type {boolean} */ isMac) => make({ isMac }).items.map((item) => item.role ?? item.label);
  assert.equal(roles(true)[0], "appMenu");
  assert.equal(roles(false)[0], "&File");
});
