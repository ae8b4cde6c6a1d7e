// Folders and programs for tests.

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** A new folder, removed after the test. @param {import("node:test").TestContext} test */
export function temporaryFolder(test) {
  const folder = mkdtempSync(join(tmpdir(), "newel-desktop-"));
  test.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Write a shell script; returns its path. @param {string} path @param {string} [body] */
export function writeProgram(path, body = "") {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `#!/bin/sh\n${body}\n`);
  chmodSync(path, 0o755);
  return path;
}
