import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";

import { choosePort } from "../src/port.js";

test("a port is kept while it is free, and another is taken while it is not", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  assert.equal(await choosePort(port), 0);
  server.close();
  await once(server, "close");
  assert.equal(await choosePort(port), port);
});

test("what is no port of an ordinary user is ignored", async () => {
  for (const port of [0, -1, 80, 65536, 1.5, NaN, Infinity]) assert.equal(await choosePort(port), 0);
});
