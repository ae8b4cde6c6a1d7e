import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Backend, StartError } from "../src/backend.js";
import { temporaryFolder, writeProgram } from "./folders.js";

const TOKEN = "a-token-of-a-server-that-is-only-a-test";
// A server that prints its address, as Newel does, and ends with its standard input.
const SERVER = `
  const { createServer } = require("node:http");
  const server = createServer(({ headers }, response) => {
    response.statusCode = headers.authorization === "Bearer ${TOKEN}" ? 200 : 401;
    response.end();
  });
  server.listen(0, "127.0.0.1", () => console.log("http://127.0.0.1:" + server.address().port + "/#token=${TOKEN}"));
  process.stdin.resume().on("end", () => process.exit(0));
`;

/** @param {import("node:test").TestContext} t @param {string[]} argv */
function make(t, argv, timeout = 10_000) {
  /** @type {string[]} */
  const ends = [];
  const backend = new Backend({ command: { argv, cwd: "/", env: process.env, timeout }, endTimeout: 500, onEnd: (reason) => ends.push(reason) });
  t.after(() => backend.stop());
  return { backend, ends };
}
const script = (/** @type {string} */ text) => ["/bin/sh", "-c", text];
const server = (before = "", after = "") => [process.execPath, "-e", `${before};${SERVER};${after}`];

/** @param {number} pid */
async function ended(pid) {
  for (let tries = 0; tries < 300; tries++) {
    try {
      if (readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ")) return true;
      process.kill(pid, 0);
    } catch {
      return true;
    }
    await sleep(20);
  }
  return false;
}

/** @param {Promise<unknown>} starting @param {RegExp} words */
const fails = (starting, words) => assert.rejects(starting, (error) => error instanceof StartError && words.test(error.message));

test("a server is ready when it answers, and ends when it is asked to", async (t) => {
  const { backend, ends } = make(t, server());
  const { origin, token, port } = await backend.start();
  assert.equal(token, TOKEN);
  assert.equal(origin, `http://127.0.0.1:${port}`);
  const { pid = 0 } = backend;
  await backend.stop();
  assert.ok(await ended(pid));
  assert.deepEqual(ends, [], "an end that was asked for is no news");
});

test("garbage before the address is kept for the log, and the token is not", async (t) => {
  const { backend } = make(t, server(`console.log("\\u001b[1mhello"); console.log("http://evil.example/#token=${TOKEN}"); console.error("a warning"); process.stdout.write(Buffer.alloc(300000, 1)); console.log()`));
  await backend.start();
  assert.match(backend.log, /hello/);
  assert.match(backend.log, /a warning/);
  assert.ok(!backend.log.includes(TOKEN));
});

test("a server that dies at once is reported with its exit code and log", async (t) => {
  const { backend, ends } = make(t, script("echo 'ModuleNotFoundError: newel' >&2; exit 3"));
  await fails(backend.start(), /ended with exit code 3/);
  assert.match(backend.log, /ModuleNotFoundError: newel/);
  assert.deepEqual(ends, []);
});

test("a program that cannot be started is reported", async (t) => {
  await fails(make(t, ["/no/such/program"]).backend.start(), /could not be started: .*ENOENT/);
  const folder = temporaryFolder(t);
  const program = writeProgram(join(folder, "newel"));
  await fails(make(t, [`${program}/x`]).backend.start(), /could not be started/);
});

test("a server that hangs is reported after the timeout, and all its processes are ended", async (t) => {
  const folder = temporaryFolder(t);
  const { backend } = make(t, script(`trap '' TERM; sleep 60 & echo $! > ${folder}/child; echo waiting for nothing >&2; while :; do sleep 1; done`), 300);
  const began = performance.now();
  await fails(backend.start(), /did not print its address within/);
  assert.ok(performance.now() - began < 9_000);
  assert.match(backend.log, /waiting for nothing/);
  assert.ok(await ended(Number(readFileSync(join(folder, "child"), "utf8"))));
  assert.ok(await ended(backend.pid ?? 0));
});

test("an address behind which nobody answers is not taken for a start", async (t) => {
  const { backend } = make(t, script(`echo http://127.0.0.1:1/#token=${TOKEN}; sleep 60`), 500);
  await fails(backend.start(), /within/);
});

test("a server that ends by itself is news, and what it has started is ended", async (t) => {
  const folder = temporaryFolder(t);
  // As `uv run` does: the server is a child of the process that is killed.
  const { backend, ends } = make(t, script(`exec 3<&0; "${process.execPath}" -e '${SERVER}' <&3 & echo $! > ${folder}/child; wait`));
  await backend.start();
  process.kill(backend.pid ?? 0, "SIGKILL");
  for (let tries = 0; tries < 100 && ends.length === 0; tries++) await sleep(20);
  assert.deepEqual(ends, ["was ended by SIGKILL"]);
  await backend.stop();
  assert.ok(await ended(Number(readFileSync(join(folder, "child"), "utf8"))));
});

test("stopping twice, or before the start is complete, leaves nothing", async (t) => {
  const { backend } = make(t, script("sleep 60"));
  const starting = backend.start();
  await Promise.all([backend.stop(), backend.stop(), fails(starting, /was ended by SIGTERM/)]);
  assert.ok(await ended(backend.pid ?? 0));
});
