import assert from "node:assert/strict";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { DesktopState, fitBounds } from "../src/desktop-state.js";
import { temporaryFolder } from "./folders.js";

const BOUNDS = { x: 40, y: 30, width: 1000, height: 800 };
const SCREEN = { x: 0, y: 0, width: 1920, height: 1080 };

test("folders are remembered with their window and port, the latest first", (t) => {
  const path = join(temporaryFolder(t), "new", "folders.json");
  const state = new DesktopState(path);
  state.remember("/a", { port: 8101 });
  state.remember("/b", { bounds: BOUNDS, isMaximized: true });
  state.remember("/a", { bounds: BOUNDS });
  const again = new DesktopState(path);
  assert.deepEqual(again.recent, ["/a", "/b"]);
  assert.deepEqual(again.of("/a"), { bounds: BOUNDS, isMaximized: false, port: 8101 });
  assert.deepEqual(again.of("/b"), { bounds: BOUNDS, isMaximized: true, port: 0 });
  assert.equal(statSync(path).mode & 0o077, 0, "others need not know the folders");
  again.clear();
  assert.deepEqual(new DesktopState(path).recent, []);
});

test("ten folders are kept", (t) => {
  const state = new DesktopState(join(temporaryFolder(t), "folders.json"));
  for (let number = 0; number < 30; number++) state.remember(`/${number}`, {});
  assert.equal(state.recent.length, 10);
  assert.equal(state.recent[0], "/29");
});

test("a damaged file is as none, and is written again", (t) => {
  const path = join(temporaryFolder(t), "folders.json");
  const none = { bounds: null, isMaximized: false, port: 0 };
  for (const text of ["", "{", "null", "[]", "7", '{"folders": 7}', '{"folders": [null, 7, {"folder": 7}, {"folder": "relative"}]}', "\u0000".repeat(100), `"${"x".repeat(300_000)}"`]) {
    writeFileSync(path, text);
    const state = new DesktopState(path);
    assert.deepEqual(state.recent, [], text.slice(0, 40));
    state.remember("/a", { port: 8101 });
    assert.equal(JSON.parse(readFileSync(path, "utf8")).folders.length, 1);
  }
  for (const [name, value] of Object.entries({
    bounds: [null, [], "wide", { x: 0, y: 0, width: -5, height: 5 }, { ...BOUNDS, x: 1e9 }, { ...BOUNDS, width: 10 }, { ...BOUNDS, y: 0.5 }, { ...BOUNDS, x: null }],
    isMaximized: [1, "yes", null],
    port: [-1, 99999, "8101", 1.5, null],
  })) {
    for (const each of value) {
      writeFileSync(path, JSON.stringify({ folders: [{ folder: "/a", [name]: each }] }));
      assert.deepEqual(new DesktopState(path).of("/a"), none, `${name}: ${JSON.stringify(each)}`);
    }
  }
});

test("a file that cannot be written does not end the shell", (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, "folders.json"));
  t.mock.method(console, "error", () => {});
  const state = new DesktopState(join(folder, "folders.json"));
  state.remember("/a", {});
  assert.deepEqual(state.recent, ["/a"]);
});

test("a window opens where it was if it can be reached there", () => {
  assert.deepEqual(fitBounds(null, [SCREEN]), { width: 900, height: 700 }, "design A's size");
  assert.deepEqual(fitBounds(BOUNDS, [SCREEN]), BOUNDS);
  const onSecond = { ...BOUNDS, x: 2000 };
  assert.deepEqual(fitBounds(onSecond, [SCREEN, { ...SCREEN, x: 1920 }]), onSecond);
});

test("a window whose screen is gone, or whose title bar is outside, opens on the primary one", () => {
  for (const place of [{ x: 2000 }, { x: -950 }, { y: -20 }, { y: 1079 }, { x: 1900 }]) {
    assert.deepEqual(fitBounds({ ...BOUNDS, ...place }, [SCREEN]), { width: 1000, height: 800 }, JSON.stringify(place));
  }
  assert.deepEqual(fitBounds({ x: 5000, y: 0, width: 3000, height: 2000 }, [SCREEN]), { width: 1920, height: 1080 });
  assert.deepEqual(fitBounds(BOUNDS, []), { width: 900, height: 700 });
});
