// A folder's Newel against a real `newel rpc` and a scripted model: tests/integration/rpc/test_vscode.py starts this with
// NEWEL_PATH, a project folder, and the environment of the model.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { applyPatches, undecided } from "../src/patch.ts";
import { command, environment, Folder, NotInstalled, options } from "../src/folder.ts";
import { Transcript } from "../src/text.ts";

const path = process.env.NEWEL_PATH ?? "newel";
const project = process.env.NEWEL_PROJECT ?? process.cwd();
const opened = [];
let seen;
after(() => Promise.all(opened.map((folder) => folder.close())));
beforeEach(() => (seen = { events: [], questions: [], crashes: [], states: [], sessions: [], text: "" }));

function open(changes = {}, { answer = "once", session } = {}) {
  const here = seen;
  const transcript = new Transcript((text) => (here.text += text));
  const launch = { path, arguments: [], model: "", approval: "auto", ...changes };
  const folder = new Folder(project, () => launch, {
    onEvent: (event) => (here.events.push(event.type), transcript.event(event)),
    onQuestion: async (asked, signal) => {
      here.questions.push(asked);
      if (answer !== "wait") return { decision: answer };
      return await new Promise((resolve) => signal.addEventListener("abort", () => resolve({ decision: "no" })));
    },
    onCrash: (error) => here.crashes.push(error),
    onState: (state, activity) => here.states.push(activity),
    onSession: (id) => here.sessions.push(id),
  }, session);
  opened.push(folder);
  return folder;
}

async function until(condition) {
  for (let tries = 0; !(await condition()); tries += 1) {
    assert.ok(tries < 200, "it never came");
    await sleep(50);
  }
}

test("what runs is a name on PATH or an absolute path, and values cannot become options", () => {
  for (const wrong of ["./newel", "bin/newel", "..\\newel", " "]) assert.throws(() => command({ path: wrong }), NotInstalled);
  assert.deepEqual(command({ path: "newel" }), ["newel", "rpc"]);
  const given = { arguments: ["--max-cost", "2"], model: "--host=evil", approval: "ask" };
  assert.deepEqual(options(given, "abc"), ["--max-cost", "2", "--approve=ask", "--model=--host=evil", "--session=abc"]);
  assert.deepEqual(environment({ PATH: "/bin", VSCODE_IPC_HOOK_CLI: "x", ELECTRON_RUN_AS_NODE: "1" }), { PATH: "/bin" });
});

test("an answer is written as it comes, and the session is remembered", async () => {
  const folder = open();
  const { text } = await folder.ask("hello there");
  assert.equal(text, "Hello from the model.");
  assert.match(seen.text, /Hello from the model\.\n/);
  assert.equal(seen.sessions.length, 1);
  assert.ok(seen.states.includes("working"));
  assert.equal(seen.states.at(-1), "idle");
});

test("cancelling ends the run and its command, and the next prompt works", async () => {
  const folder = open();
  const controller = new AbortController();
  const run = folder.ask("sleep for long", controller.signal);
  await until(() => seen.events.includes("tool_execution_update"));
  controller.abort();
  assert.equal((await run).end.reason, "aborted");
  const pid = Number(readFileSync(join(project, "pid"), "utf8"));
  await until(() => !existsSync(`/proc/${pid}`));
  assert.equal((await folder.ask("hello there")).text, "Hello from the model.");
});

test("a question is answered; a refusal changes nothing", async () => {
  await open({ approval: "ask" }, { answer: "no" }).ask("touch the file");
  assert.equal(existsSync(join(project, "touched")), false);
  assert.equal(seen.questions[0].preview, "touch touched");
  assert.match(seen.text, /● bash, not run\n/);
  await open({ approval: "ask" }).ask("touch the file");
  assert.equal(existsSync(join(project, "touched")), true);
});

test("a question is withdrawn when the run is stopped", async () => {
  const folder = open({ approval: "ask" }, { answer: "wait" });
  const run = folder.ask("touch the file");
  await until(() => seen.states.at(-1) === "asking");
  assert.equal(await folder.stop(), true);
  assert.equal((await run).end.reason, "aborted");
  assert.equal(seen.states.at(-1), "idle");
});

test("the changes of a review are shown as they will be, kept, and undone", async () => {
  writeFileSync(join(project, "a.txt"), "one\n");
  const folder = open({ approval: "review" });
  await folder.ask("change the file");
  const client = await folder.client();
  const pending = async () => undecided((await client.changes(0)).pending);
  const [file] = await pending();
  const now = readFileSync(join(project, "a.txt"), "utf8");
  const after = applyPatches(now, file.hunks.map((hunk) => hunk.patch));
  assert.deepEqual([now, after], ["one\n", "two\n"]);
  await client.decide({ verdict: "keep", names: file.hunks.map((hunk) => hunk.hunkId) });
  assert.equal(readFileSync(join(project, "a.txt"), "utf8"), after);
  await client.undo();
  assert.equal(readFileSync(join(project, "a.txt"), "utf8"), now);
  assert.deepEqual(await pending(), []);
});

test("what is rejected is not to be decided any more", async () => {
  writeFileSync(join(project, "a.txt"), "one\n");
  const folder = open({ approval: "review" });
  await folder.ask("change the file");
  const client = await folder.client();
  const [file] = undecided((await client.changes(0)).pending);
  await client.decide({ verdict: "reject", names: file.hunks.map((hunk) => hunk.hunkId) });
  assert.deepEqual(undecided((await client.changes(0)).pending), []);
  assert.equal(readFileSync(join(project, "a.txt"), "utf8"), "one\n");
});

test("a crash is reported once, and the next command resumes the session", async () => {
  const folder = open();
  await folder.ask("hello there");
  const { pid } = await folder.client();
  process.kill(pid, "SIGKILL");
  await until(() => seen.crashes.length > 0);
  assert.equal((await (await folder.client()).state()).messageCount, 2);
  await folder.ask("hello there");
  assert.equal(seen.crashes.length, 1);
  assert.equal(seen.sessions.length, 1);
});

test("another approval mode takes a new process with the same session", async () => {
  const folder = open();
  await folder.ask("hello there");
  const { sessionId } = await (await folder.client()).state();
  await folder.chooseApproval("read-only");
  const state = await (await folder.client()).state();
  assert.deepEqual([state.approve, state.sessionId], ["read-only", sessionId]);
});

test("a session that is gone or open elsewhere is replaced by a new one, and that is said", async () => {
  const folder = open({}, { session: "0123456789abcdef" });
  assert.equal((await folder.ask("hello there")).text, "Hello from the model.");
  assert.match(seen.text, /A new session begins/);
});

test("a missing Newel is reported, and looked for again with the next command", async () => {
  const folder = open({ path: "/no/such/newel" });
  await assert.rejects(folder.ask("hello there"), NotInstalled);
  await assert.rejects(folder.ask("hello there"), NotInstalled);
  assert.deepEqual(seen.crashes, []);
});
