import assert from "node:assert/strict";
import { test } from "node:test";

import { ACTIONS, destinationOf, isPermitted } from "../src/navigation.js";

const ORIGIN = "http://127.0.0.1:8101";
const kindOf = (/** @type {string} */ url, isHelp = false) => destinationOf(url, { origin: ORIGIN, isHelp }).kind;

test("the page stays on its own server", () => {
  for (const url of [`${ORIGIN}/`, `${ORIGIN}/#/tab/x`, `${ORIGIN}/docs`, `blob:${ORIGIN}/1`]) assert.equal(kindOf(url), "own", url);
  assert.equal(destinationOf(`${ORIGIN}/`, { origin: null, isHelp: false }).kind, "external");
});

test("links to elsewhere open in the browser, also to other servers of this machine", () => {
  for (const url of ["https://example.org/x", "http://127.0.0.1:8102/", "http://localhost:8101/", "mailto:a@example.org", "HTTPS://EXAMPLE.ORG"]) {
    assert.equal(kindOf(url), "external", url);
  }
});

test("what could run or read something on this machine is refused", () => {
  for (const url of ["file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "smb://host/x", "vscode://x", "ms-settings:", "http://u:p@example.org/", "about:blank", "chrome://gpu", "", "not a url", "\u0000"]) {
    assert.equal(kindOf(url), "refused", url);
  }
});

test("only the help page has the shell's actions", () => {
  assert.deepEqual(destinationOf(`${ACTIONS}retry`, { origin: null, isHelp: true }), { kind: "action", name: "retry" });
  assert.equal(kindOf(`${ACTIONS}retry`), "refused");
  assert.equal(kindOf(`${ORIGIN}/`, true), "refused");
});

test("the page may notify and use the clipboard; others may not, and nobody more", () => {
  for (const permission of ["notifications", "clipboard-sanitized-write", "clipboard-read"]) {
    assert.equal(isPermitted(permission, `${ORIGIN}/`, ORIGIN), true);
    for (const other of ["https://example.org/", "http://127.0.0.1:8102/", "data:text/html,x", "", "null"]) {
      assert.equal(isPermitted(permission, other, ORIGIN), false, other);
    }
    assert.equal(isPermitted(permission, `${ORIGIN}/`, null), false);
  }
  for (const permission of ["media", "geolocation", "openExternal", "fullscreen", "hid", "usb", "display-capture", "fileSystem"]) {
    assert.equal(isPermitted(permission, `${ORIGIN}/`, ORIGIN), false, permission);
  }
});
