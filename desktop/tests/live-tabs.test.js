import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";

import { LiveTabs } from "../src/live-tabs.js";

test("a program that has taken the port does not get the token", async () => {
  /** @type {string[]} */
  const heard = [];
  const server = createServer((request, response) => {
    heard.push(`${request.method} ${request.url}`, JSON.stringify(request.headers));
    response.end(JSON.stringify({ nonce: "a nonce", proof: "0".repeat(64) }));
  });
  server.on("upgrade", (request, socket) => {
    heard.push(`upgrade ${request.url}`, JSON.stringify(request.headers));
    socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const tabs = new LiveTabs({ origin: `http://127.0.0.1:${port}`, token: "the-secret-token", onTabs: () => assert.fail("it has no tabs") });
  for (let wait = 0; wait < 500 && heard.filter((line) => line.startsWith("GET") || line.startsWith("upgrade")).length < 2; wait += 1) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  tabs.close();
  server.closeAllConnections();
  server.close();
  assert.ok(heard.length > 2);
  assert.doesNotMatch(heard.join("\n"), /the-secret-token/);
});
