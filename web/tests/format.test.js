import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  formatCall, truncate, diffLines, formatDuration, matchScore, formatTime, describeOutcome, plain, reveal, readableOutput, toSentence, formatBytes, formatCost, formatCount, formatLineCounts, describeExcess, describeRetry, formatUsage, describeModel, shortFolder,
} from "../src/format.js";

test("a model's known details are one line", () => {
  const unknown = { contextWindow: null, inputPrice: null, outputPrice: null, hasTiers: false, thinking: null };
  assert.equal(describeModel(unknown), "");
  assert.equal(describeModel({ ...unknown, contextWindow: 200_000 }), "200k");
  assert.equal(describeModel({ ...unknown, inputPrice: 0, outputPrice: 0, thinking: true }), "$0 / $0 per M · thinking");
  assert.equal(describeModel({ ...unknown, inputPrice: 1.25, outputPrice: 10, hasTiers: true }), "$1.25 / $10+ per M");
});

test("a call's line has its name and parameters, and at most 80 characters", () => {
  assert.equal(formatCall("read", { file_path: "src/auth.py" }), "read src/auth.py");
  assert.equal(formatCall("grep", { pattern: "SELECT.*%s", type: "py" }), 'grep SELECT.*%s type="py"');
  const long = formatCall("bash", { command: "x".repeat(500) });
  assert.equal([...long].length, 80);
  assert.ok(long.endsWith("…"));
  assert.equal([...formatCall("bash", { command: "😀".repeat(200) })].length, 80);
  assert.equal(formatCall("bash", { command: "a\nb" }), "bash a ↵ b");
  assert.equal(formatCall("odd", null), "odd");
});

test("the line of a change names the file; its diff shows the text", () => {
  assert.equal(formatCall("write", { file_path: "a.py", content: "x = 1" }), "write a.py");
  assert.equal(formatCall("edit", { file_path: "a.py", edits: [{ old_string: "1", new_string: "2" }] }), "edit a.py");
  assert.equal(formatCall("edit", { file_path: "a.py", old_string: "1", new_string: "2", replace_all: true }), "edit a.py replace_all=true");
  assert.equal(formatCall("notes__add", { path: "a", content: "x" }), 'notes__add a content="x"');
});

test("a call of any name has its line: otherwise a model could end the display of its conversation", () => {
  for (const name of ["constructor", "toString", "__proto__"]) assert.equal(formatCall(name, { path: "a" }), `${name} a`);
});

test("a message that is too long is refused with its size", () => {
  assert.equal(describeExcess("x".repeat(1_000_000)), "");
  assert.match(describeExcess("x".repeat(1_000_001)), /has 1,000,001 characters; at most 1,000,000 /);
});

test("truncating splits no character", () => {
  assert.equal(truncate("😀😀😀", 2), "😀…");
  assert.equal(truncate("😀😀😀", 3), "😀😀😀");
});

test("escape sequences and control characters do not reach the screen", () => {
  assert.equal(plain("\x1b[31mred\x1b[0m \x1b]0;title\x07plain\r\nnext\x00"), "red plain\nnext");
  assert.equal(plain("a\u202eb"), "a<U+202E>b");
});

test("text to decide on hides nothing", () => {
  assert.equal(reveal("rm\u200b -rf\u00a0/ \u202e x\x1b[2K"), "rm<U+200B> -rf<U+00A0>/ <U+202E> x<U+001B>[2K");
  assert.equal(reveal("plain text\n\twith ümläut 漢字"), "plain text\n\twith ümläut 漢字");
  assert.equal(reveal("\u{e0041}"), "<U+E0041>");
  assert.equal(reveal("a\u200db 👩\u200d x\ufe0f"), "a<U+200D>b 👩<U+200D> x<U+FE0F>");
  const emoji = "👩\u200d👩\u200d👧 ❤\ufe0f 👍🏽 🇩🇪 ©";
  assert.equal(reveal(emoji), emoji);
});

test("a diff's lines are classified by their sign, even if the text looks like a head", () => {
  const lines = diffLines("--- a\n+++ b\n@@ -1,2 +1,2 @@\n same\n--- old\n+++ new\n");
  assert.deepEqual(lines.map((line) => line.kind), ["file", "file", "hunk", "same", "del", "add"]);
});

test("a call's outcome is a few words", () => {
  const result = (more) => ({ output: "", isError: false, details: {}, ...more });
  assert.equal(describeOutcome("bash", result({ details: { exitCode: 2 } })), "exit code 2");
  assert.equal(describeOutcome("edit", result({ details: { diff: "@@ -1 +1 @@\n-a\n+b\n" } })), "+1 −1");
  assert.equal(describeOutcome("read", result({ details: { linesRead: 1 } })), "1 line");
  assert.equal(describeOutcome("x", result({ output: "Not run: the user declined this call." })), "not run");
  assert.equal(describeOutcome("write", result({ details: { isNew: true, size: 23, diff: "@@ -0,0 +1 @@\n+a\n" } })), "new, 23 bytes");
  assert.equal(describeOutcome("edit", result({ details: { diff: "@@ -1,2 +1 @@\n-a\n b\n" } })), "−1");
  assert.equal(describeOutcome("read", result({ details: { entries: 12 } })), "12 names");
  assert.equal(describeOutcome("read", result({ details: { width: 640, height: 480 } })), "640 × 480");
  assert.equal(describeOutcome("bash", result({ output: report("one\n12 passed\n", "") })), "12 passed");
  assert.equal([...describeOutcome("bash", result({ output: report("x".repeat(99), "") }))].length, 40);
  assert.equal(describeOutcome("time__now", result({ output: "12:40" })), "12:40");
  assert.equal(describeOutcome("time__now", result({ output: "{\n}" })), "");
});

const report = (out, errors) => `stdout:\n${out}\nstderr:\n${errors}\nexit code: 0`;

test("a command's output has labels only if it wrote to both streams", () => {
  assert.equal(readableOutput("bash", report("a\nb", "")), "a\nb");
  assert.equal(readableOutput("bash", report("", "no such file")), "no such file");
  assert.equal(readableOutput("bash", report("", "")), "");
  assert.equal(readableOutput("bash", report("a\nstderr:\nb", "")), "a\nstderr:\nb");
  assert.equal(readableOutput("bash", report("a", "b")), report("a", "b"));
  assert.equal(readableOutput("bash", `${report("a", "")}\nStopped after 30 seconds.`), "a\nStopped after 30 seconds.");
  assert.equal(readableOutput("other", report("a", "")), report("a", ""));
  assert.equal(readableOutput("bash", "Interrupted: the outcome is unknown."), "Interrupted: the outcome is unknown.");
});

test("a time of today shows the time, an earlier one the day, too", () => {
  const now = new Date(2026, 2, 1, 0, 5).getTime();
  assert.equal(formatTime(new Date(2026, 2, 1, 0, 2).getTime(), now), "00:02");
  assert.equal(formatTime(new Date(2026, 1, 28, 18, 3).getTime(), now), "yesterday 18:03");
  assert.equal(formatTime(new Date(2026, 0, 12, 9, 30).getTime(), now), "12 Jan 09:30");
  assert.equal(formatTime(new Date(2024, 2, 12).getTime(), now), "12 Mar 2024");
});

test("numbers are those of the terminal", () => {
  const cases = JSON.parse(readFileSync(new URL("../../tests/fixtures/number_formats.json", import.meta.url), "utf8"));
  const formatters = { counts: formatCount, durations_ms: formatDuration, sizes_bytes: formatBytes, costs_usd: formatCost, line_counts: ([added, removed]) => formatLineCounts(added, removed), usage: formatUsage };
  for (const [kind, format] of Object.entries(formatters)) {
    assert.deepEqual(cases[kind].map(([value]) => [value, format(value)]), cases[kind]);
  }
});

test("a command is found by some of its letters, best match first", () => {
  assert.ok(matchScore("nwag", "New agent") > 0);
  assert.equal(matchScore("zzz", "New agent"), 0);
  assert.ok(matchScore("agent", "New agent") > matchScore("agent", "a green tent"));
});

test("retries of a request are described in whole sentences, in seconds", () => {
  const tries = { attempt: 2, of: 5, delay: 0.825, reason: "status 500", outcome: null };
  assert.equal(describeRetry(tries), "status 500. Retrying in 1 s (attempt 2 of 5).");
  assert.equal(describeRetry({ ...tries, outcome: "failed" }), "Failed after 2 attempts.");
  assert.equal(describeRetry({ ...tries, outcome: "answered" }), "status 500. The model answered on attempt 2 of 5.");
  assert.deepEqual(["Done.", "really?", "see (here)", "no end "].map(toSentence), ["Done.", "really?", "see (here)", "no end."]);
});

test("a folder in the user's home begins with ~, as in the terminal", () => {
  assert.equal(shortFolder("/home/ann/shop", "/home/ann"), "~/shop");
  assert.equal(shortFolder("/home/ann", "/home/ann"), "~");
  assert.equal(shortFolder("/home/anna/shop", "/home/ann"), "/home/anna/shop");
  assert.equal(shortFolder("/srv/shop", ""), "/srv/shop");
});
