import assert from "node:assert/strict";
import { test } from "node:test";
import { eventsOf } from "../src/server-sent-events.js";

const TEXT = 'event: job\ndata: {"a":1}\n\n: \n\nevent: event\nid: 7\ndata: "ü: 😀"\n\nevent: soFar\ndata: 2\n\nevent: cut\ndata: ';

test("events are read however the bytes are cut", async () => {
  const bytes = new TextEncoder().encode(TEXT);
  for (const size of [1, 2, 3, 5, 1000]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.slice(at * size, (at + 1) * size));
    const found = await Array.fromAsync(eventsOf(ReadableStream.from(pieces)));
    assert.deepEqual(found, [
      { name: "job", data: '{"a":1}', id: 0 },
      { name: "event", data: '"ü: 😀"', id: 7 },
      { name: "soFar", data: "2", id: 7 },
    ]);
  }
});
