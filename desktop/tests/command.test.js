import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { findCommand, NoCommandError } from "../src/command.js";
import { temporaryFolder, writeProgram } from "./folders.js";

/** @param {import("node:test").TestContext} t */
function makePlaces(t) {
  const top = temporaryFolder(t);
  const checkout = join(top, "checkout");
  mkdirSync(checkout);
  writeFileSync(join(checkout, "pyproject.toml"), '[project]\nname = "newel"\n');
  const bin = join(top, "bin");
  const home = join(top, "home");
  return { top, checkout, bin, home, env: { PATH: bin, HOME: home, VIRTUAL_ENV: "/other", LLM_DEFAULT_MODEL: "m" } };
}
const OPTIONS = ["--port", "8765", "--exit-with-stdin", "--join", "--cwd", "/project"];

test("in a checkout, uv runs design A's command, whatever is installed", (t) => {
  const { checkout, bin, env } = makePlaces(t);
  writeProgram(join(bin, "newel"));
  const uv = writeProgram(join(bin, "uv"));
  const { argv, cwd, env: given } = findCommand({ checkout, folder: "/project", port: 8765, env });
  assert.deepEqual(argv, [uv, "run", "--no-dev", "--project", checkout, "lsimons-agent-web", ...OPTIONS]);
  assert.equal(cwd, checkout);
  assert.equal(given.VIRTUAL_ENV, undefined, "another environment must not be changed");
  assert.equal(given.LLM_DEFAULT_MODEL, "m");
});

test("uv may be where `./run` puts it, or where a shell finds it and a desktop does not", (t) => {
  for (const place of ["checkout/.tools/bin/uv", "home/.local/bin/uv", "home/.cargo/bin/uv"]) {
    const { top, checkout, env } = makePlaces(t);
    const uv = writeProgram(join(top, place));
    assert.equal(findCommand({ checkout, folder: "/project", port: 0, env }).argv[0], uv);
  }
});

test("outside a checkout, also where one is the working folder, or without uv, the installed command runs in the folder", (t) => {
  const { checkout, top, bin, env } = makePlaces(t);
  const newel = writeProgram(join(bin, "newel"));
  const before = process.cwd();
  process.chdir(checkout);
  t.after(() => process.chdir(before));
  for (const place of [checkout, null, join(top, "nowhere"), bin]) {
    const { argv, cwd } = findCommand({ checkout: place, folder: "/project", port: 8765, env });
    assert.deepEqual(argv, [newel, "web", ...OPTIONS]);
    assert.equal(cwd, "/project");
  }
});

test("lsimons-agent-web alone is enough, and its own Python is found by programs that it starts", (t) => {
  const { home, env } = makePlaces(t);
  const web = writeProgram(join(home, ".local", "bin", "lsimons-agent-web"));
  const { argv, env: given } = findCommand({ checkout: null, folder: "/project", port: 8765, env });
  assert.deepEqual(argv, [web, ...OPTIONS]);
  assert.ok(given.PATH?.split(":").includes(join(home, ".local", "bin")));
});

test("what is no program is not taken: a folder, a file without the right, a relative PATH", (t) => {
  const { bin, env } = makePlaces(t);
  mkdirSync(join(bin, "newel"), { recursive: true });
  writeFileSync(join(bin, "lsimons-agent-web"), "");
  for (const path of [bin, ".", "", undefined]) {
    assert.throws(() => findCommand({ checkout: null, folder: "/project", port: 0, env: { ...env, PATH: path } }), NoCommandError);
  }
});

test("a checkout without uv is told apart from no Newel at all", (t) => {
  const { checkout, env } = makePlaces(t);
  const tell = (/** @type {string | null} */ place) => {
    try {
      findCommand({ checkout: place, folder: "/project", port: 0, env });
      return null;
    } catch (error) {
      return error instanceof NoCommandError ? error.isCheckout : error;
    }
  };
  assert.equal(tell(checkout), true);
  assert.equal(tell(null), false);
});
