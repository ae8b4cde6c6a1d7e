import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { diff } from "../src/patience.js";

const FIXTURES = new URL("../../tests/fixtures/line_diffs.json", import.meta.url);
const { cases } = JSON.parse(readFileSync(FIXTURES, "utf8"));

/** Lines; `[line, count]` stands for several. */
const unpacked = (lines) => lines.flatMap((each) => (Array.isArray(each) ? Array(each[1]).fill(each[0]) : [each]));

test("the page finds the same hunks as the server", () => {
  assert.ok(cases.length > 400);
  for (const { name, a, b, spans } of cases) assert.deepEqual(diff(unpacked(a), unpacked(b)), spans, name);
});

test("a file of hundreds of thousands of lines can be compared", () => {
  const a = Array.from({ length: 300_000 }, (_, index) => `${index}`);
  const b = a.flatMap((line) => [line, "put in"]);
  assert.equal(diff(a, b).length, a.length);
});
