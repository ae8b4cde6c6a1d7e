// Against a real `newel rpc` and a scripted model: tests/integration/rpc/test_node_client.py starts this with a NEWEL_COMMAND
// (JSON), a project folder, and the environment of the model.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { after, test } from "node:test";
import { CommandFailed, CommandTimedOut, connect, ProcessEnded, RpcClient, RpcClientError } from "newel-client";

const command = JSON.parse(process.env.NEWEL_COMMAND ?? '["newel", "rpc"]');
const cwd = process.env.NEWEL_PROJECT ?? process.cwd();
const opened = [];
after(() => Promise.all(opened.map((client) => client.close())));

function start(...args) {
  const client = new RpcClient({ command, cwd, args });
  opened.push(client);
  return client;
}

async function until(condition) {
  for (let tries = 0; !(await condition()); tries += 1) {
    assert.ok(tries < 200, "it never came");
    await sleep(50);
  }
}

const isAlive = (pid) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

test("a prompt is run, and its events and its result are read", async () => {
  const newel = start();
  const kinds = [];
  const result = await newel.run("hello there", { onEvent: (event) => kinds.push(event.type) });
  assert.equal(result.text, "Hello from the model.");
  assert.equal(result.end.reason, "done");
  assert.equal(kinds.at(-1), "agent_end");
  assert.ok(kinds.includes("message_update"));
  const { messages, total } = await newel.messages();
  assert.deepEqual([total, messages[0].role, messages[0].content], [2, "user", "hello there"]);
});

test("a stream of events ends when its loop is left", async () => {
  const newel = start();
  const events = newel.events();
  const { queued } = await newel.prompt("hello there");
  assert.equal(queued, false);
  let text = "";
  for await (const event of events) {
    if (event.type === "message_update" && event.assistantMessageEvent.type === "text_delta") text += event.assistantMessageEvent.delta;
    if (event.type === "agent_end") break;
  }
  assert.equal(text, "Hello from the model.");
  assert.equal((await events.next()).done, true);
});

test("a refused command throws its code", async () => {
  const newel = start();
  await assert.rejects(newel.switchSession("zzzz"), (error) => error instanceof CommandFailed && error.code === "session_error");
  await assert.rejects(newel.request("state", { nonsense: 1 }), (error) => error instanceof CommandFailed && error.code === "bad_request");
  assert.equal((await newel.state()).isStreaming, false);
});

test("a command without a response in time throws, and the client goes on", async () => {
  const newel = start();
  await assert.rejects(newel.request("state", {}, 1), CommandTimedOut);
  assert.equal((await newel.state()).messageCount, 0);
});

test("a session forks, is named, listed and exported", async () => {
  const newel = start();
  await newel.run("hello there");
  const before = (await newel.state()).sessionId;
  const fork = await newel.fork();
  assert.notEqual(fork.sessionId, before);
  assert.equal(fork.messageCount, 2);
  await newel.nameSession("the fork");
  const { sessions } = await newel.sessions();
  assert.ok(sessions.some((session) => session.id === before));
  assert.ok(sessions.some((session) => session.name === "the fork"));
  assert.match((await newel.export()).text, /Hello from the model/);
  assert.equal((await newel.stats()).userMessages, 1);
});

test("an approval is asked for and answered", async () => {
  const newel = start("--approve", "ask");
  const result = await newel.run("touch the file", {
    onEvent: (event) => {
      if (event.type === "approval_request") void newel.approve(event.toolCallId, "once");
    },
  });
  assert.equal(result.end.reason, "done");
  assert.ok(existsSync(join(cwd, "touched")));
});

test("a run whose events the program cannot handle is aborted", async () => {
  const newel = start();
  const fail = (event) => {
    if (event.type === "tool_execution_update") throw new RangeError("mine");
  };
  await assert.rejects(newel.run("sleep for long", { onEvent: fail }), RangeError);
  await until(async () => !(await newel.state()).isStreaming);
  assert.equal((await newel.run("hello there")).text, "Hello from the model.");
});

test("closing the client in a run ends the process and what its tools have started", async () => {
  const newel = start();
  const events = newel.events();
  await newel.prompt("sleep for long");
  for await (const event of events) if (event.type === "tool_execution_update") break;
  const { pid } = newel;
  await newel.close();
  assert.equal(isAlive(pid), false);
  await assert.rejects(newel.state(), RpcClientError);
});

test("when the process is killed, commands and streams throw, with its last words", async () => {
  const newel = start();
  await newel.state();
  const events = newel.events();
  const waiting = assert.rejects(newel.compact()); // refused, or cut off
  process.kill(newel.pid, "SIGKILL");
  await assert.rejects(async () => {
    for await (const event of events) void event;
  }, ProcessEnded);
  await waiting;
  await assert.rejects(newel.state(), ProcessEnded);
});

test("a Newel that cannot start says why", async () => {
  await assert.rejects(connect({ command, cwd, args: ["--session", "zzzz"] }), (error) => {
    assert.ok(error instanceof ProcessEnded);
    assert.equal(error.failure?.code, "session_error");
    return error.message.includes("zzzz");
  });
  await assert.rejects(connect({ command: ["/no/such/newel"] }), /cannot be started/);
  await assert.rejects(connect({ command: [process.execPath, "-e", "console.log('hi'); setInterval(() => {}, 1000)"] }), /It is not Newel/);
});

test("two clients cannot have one session", async () => {
  const first = start();
  await first.run("hello there");
  const { sessionId } = await first.state();
  const second = start();
  await assert.rejects(second.switchSession(sessionId), (error) => error.code === "session_in_use");
  await first.close();
  await until(async () => (await second.switchSession(sessionId)).messageCount === 2);
});
