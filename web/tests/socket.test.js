// If this fails, one long message ends the connection of the page again and again, and with it everything else.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Connection } from "../src/socket.js";

/** What a browser has and Node has not. */
const GLOBALS = { addEventListener() {}, document: { addEventListener() {} } };

test("a message that the server would not take is refused here", async (t) => {
  for (const [name, value] of Object.entries(GLOBALS)) {
    globalThis[name] = value;
    t.after(() => delete globalThis[name]);
  }
  const connection = new Connection({ url: "ws://127.0.0.1/ws", onFrame() {}, onLink() {} });
  const sent = [];
  connection.socket = { readyState: WebSocket.OPEN, send: (text) => sent.push(JSON.parse(text).text.length) };
  const long = connection.request("send", { text: "ü".repeat(4_200_000) });
  assert.deepEqual(sent, []);
  await assert.rejects(long, /larger than 8 MB/);
  connection.request("send", { text: "u".repeat(4_200_000) });
  assert.deepEqual(sent, [4_200_000]);
  assert.equal(connection.waiting.size, 1);
});
