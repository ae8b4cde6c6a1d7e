import assert from "node:assert/strict";
import { test } from "node:test";

import { LogTail } from "../src/log-tail.js";

test("lines that come in pieces are whole, and the last one need not be complete", () => {
  const log = new LogTail();
  for (const piece of ["first li", "ne\nsecond\r", "\nthird"]) log.add(piece);
  assert.deepEqual(log.text.split("\n").filter(Boolean), ["first line", "second", "third"]);
});

test("only the end of a long output is kept, in bounded memory", () => {
  const log = new LogTail();
  for (let number = 0; number < 1000; number++) log.add(`line ${number}\n`);
  assert.equal(log.text.split("\n").length, 200);
  assert.ok(log.text.endsWith("line 999"));
  for (let number = 0; number < 1000; number++) log.add("x".repeat(10_000));
  assert.ok(log.text.length < 200 * 502);
});

test("a token is not shown, nor what changes the terminal or the direction of text", () => {
  const log = new LogTail();
  log.add("http://127.0.0.1:1/#token=AAAABBBBCCCC_-1 \u001b[31mred\u001b[0m \u202eabc\u0007 \u001b]0;title\u0007end\n");
  assert.equal(log.text, "http://127.0.0.1:1/#token=… red abc end");
});
