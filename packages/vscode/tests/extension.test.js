// The bundled extension against a real `newel rpc` and a scripted model: tests/integration/rpc/test_vscode.py starts this with the path
// of newel (NEWEL_PATH), a project folder (NEWEL_PROJECT), and the environment of the model.

import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync } from "node:fs";
import Module, { createRequire } from "node:module";
import { join } from "node:path";
import { after, afterEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(import.meta.url);
const resolve = Module._resolveFilename;
Module._resolveFilename = (name, ...rest) => (name === "vscode" ? require.resolve("./vscode.cjs") : resolve(name, ...rest));
const vscode = require("./vscode.cjs");
const extension = require("../dist/extension.cjs");

const { shown, answers, settings, run } = vscode.test;
const file = join(process.env.NEWEL_PROJECT, "made.txt");
settings.path = process.env.NEWEL_PATH;
extension.activate({ subscriptions: [] });
afterEach(async () => {
  await extension.deactivate();
  for (const list of [shown.documents, shown.messages, shown.picks, shown.errors, answers.input, answers.message, answers.pick]) list.length = 0;
  shown.output = "";
  delete settings.approval;
  rmSync(file, { force: true });
});
after(() => extension.deactivate());

async function until(condition) {
  for (let tries = 0; !condition(); tries += 1) {
    assert.ok(tries < 200, `it never came: ${shown.output} ${shown.errors}`);
    await sleep(50);
  }
}

test("a prompt's answer and its tools are printed", async () => {
  answers.input.push("hello there");
  await run("newel.ask");
  assert.match(shown.output, /> hello there\n[^]*Hello from the model\./);
  assert.deepEqual(shown.errors, []);
});

test("a call runs only after it was allowed, and the preview is whole", async () => {
  answers.input.push("make a file");
  answers.message.push((text, { detail }) => {
    assert.match(detail, /touch made\.txt|made\.txt/);
    assert.ok(!existsSync(file));
    return "Allow";
  });
  await run("newel.ask");
  assert.ok(existsSync(file));
  assert.match(shown.output, /● bash /);
});

test("a dialog that is closed declines", async () => {
  answers.input.push("make a file");
  answers.message.push(undefined);
  await run("newel.ask");
  assert.ok(!existsSync(file));
  assert.match(shown.output, /declined/);
});

test("the last run's changes are shown and undone after a question", async () => {
  settings.approval = "auto";
  answers.input.push("make a file");
  await run("newel.ask");
  await run("newel.review");
  assert.match(shown.documents[0], /made\.txt/);
  answers.message.push(undefined);
  await run("newel.undo");
  assert.ok(existsSync(file));
  answers.message.push("Undo");
  await run("newel.undo");
  assert.ok(!existsSync(file));
  assert.deepEqual(shown.errors, []);
});

test("changes on a copy are kept where the user chooses them", async () => {
  settings.approval = "review";
  answers.input.push("make a file");
  await run("newel.ask");
  assert.ok(!existsSync(file));
  answers.pick.push((items) => items.slice(0, 1), (items) => items.find((item) => item.label === "Keep"));
  await run("newel.review");
  assert.equal(readFileSync(file, "utf8"), "made\n");
});

test("a run is ended at once, from the notification and by the command", async () => {
  settings.approval = "auto";
  for (const stop of [() => vscode.window.cancel(), () => run("newel.stop")]) {
    answers.input.push("wait long");
    const running = run("newel.ask");
    await until(() => shown.output.includes("● bash"));
    stop();
    await running;
    assert.match(shown.output, /aborted|Stopped|stopped/i);
    shown.output = "";
  }
});

test("selected lines are sent with their place", async () => {
  vscode.window.activeTextEditor = {
    selection: { isEmpty: false, start: { line: 4 }, end: { line: 6 } },
    document: { uri: { path: "src/a.py" }, getText: () => "```\nx = 1\n```" },
  };
  answers.input.push("hello there, what is this?");
  await run("newel.askSelection");
  assert.match(shown.output, /src\/a\.py, lines 5 to 7:\n> \n> ````\n/);
  vscode.window.activeTextEditor = undefined;
});

test("a killed Newel is reported once, and the next prompt goes on with the session", async () => {
  answers.input.push("hello there");
  await run("newel.ask");
  const { execFileSync } = await import("node:child_process");
  execFileSync("pkill", ["-9", "-P", String(process.pid)]);
  await until(() => shown.messages.some((message) => message.includes("Newel has ended")));
  answers.input.push("hello there");
  await run("newel.ask");
  answers.pick.push((items) => {
    assert.match(items[0].description, /4 messages/);
    return undefined;
  });
  await run("newel.openSession");
  assert.deepEqual(shown.errors, []);
});

test("a newel that is not there is named with a remedy", async () => {
  const path = settings.path;
  settings.path = "/nowhere/newel";
  answers.input.push("hello");
  await run("newel.ask");
  assert.match(shown.errors[0], /\/nowhere\/newel cannot be started[^]*newel\.path/);
  settings.path = path;
});

test("no text of a model controls the screen or hides", async () => {
  answers.input.push("escape");
  await run("newel.ask");
  assert.doesNotMatch(shown.output, /[\u001b\u202e\u200b]/);
  assert.match(shown.output, /\\u\{1b\}/);
});
