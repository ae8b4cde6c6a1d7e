// The texts, and the diffs: no VS Code, no Newel.

import assert from "node:assert/strict";
import { test } from "node:test";
import { applyPatches, changedLines, firstLine } from "../src/patch.ts";
import { choices, clean, describeModel, label, promptAbout, question, status, Transcript } from "../src/text.ts";

const patch = (header, ...lines) => `diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ ${header} @@\n${lines.join("\n")}\n`;
const numbered = Array.from({ length: 20 }, (_, index) => `l${index + 1}\n`).join("");

test("hidden characters are shown, and labels carry no links, commands or icons", () => {
  assert.equal(clean("a\u001b[31mb\r\nc\u202ed\u{e0041}"), "a\\u{1b}[31mb\nc\\u{202e}d\\u{e0041}");
  assert.equal(label("[run](command:evil)\n $(flame)"), "[run] (command:evil) $ (flame)");
  assert.equal([...label("😀".repeat(400))].length, 300);
});

test("the list of models shows their size and prices, as far as they are known", () => {
  const model = { name: "m", contextWindow: 200_000, inputPrice: 3, outputPrice: 15, hasTiers: true, thinking: true };
  assert.equal(describeModel(model), "200k · $3 / $15+ per M · thinking");
  assert.equal(describeModel({ ...model, contextWindow: 1_048_576, hasTiers: false, thinking: null }), "1M · $3 / $15 per M");
  assert.equal(describeModel({ name: "m", contextWindow: null, inputPrice: null, outputPrice: null, hasTiers: false, thinking: null }), "");
});

test("a prompt about a selection says where it is, and its fence cannot be closed by the text", () => {
  const prompt = promptAbout("Why?", { path: "src/a.py", firstLine: 3, lastLine: 4, text: "```\nx = 1" });
  assert.equal(prompt, "Why?\n\nThe selection, src/a.py, lines 3–4:\n\n````\n```\nx = 1\n````");
});

test("a long question is shown in an editor, a short one at once", () => {
  const asked = { label: "Execute Shell Command", preview: "ls", args: {} };
  assert.deepEqual(question(asked), { title: "Newel asks: Execute Shell Command", preview: "ls", isLong: false });
  assert.equal(question({ ...asked, preview: "ls\n".repeat(50) }).isLong, true);
  assert.equal(question({ ...asked, preview: `ls ${" ".repeat(100)}; rm -r x` }).isLong, true);
});

test("a question hides no character, and says that a command leaves the sandbox", () => {
  const asked = { label: "Execute Shell Command", args: {}, preview: "" };
  const preview = "(outside of the sandbox: it can do whatever you can)\nls \u3164\u00a0\u2800x\ry\r\nz";
  assert.deepEqual(question({ ...asked, preview }), {
    title: "Newel asks: Execute Shell Command outside of the sandbox",
    preview: "(outside of the sandbox: it can do whatever you can)\nls \\u{3164}\\u{a0}\\u{2800}x\\u{d}y\\u{d}\nz",
    isLong: false,
  });
});

test("an answer about a server is for the session or for the project, and its question needs no editor", () => {
  const asked = { label: "Network", args: { server: "a.org" }, rule: "the server a.org", kind: "server" };
  const preview = "a.org\n\nA command in the sandbox wants to reach this server,\nand may send it anything that it can read.";
  assert.equal(question({ ...asked, preview }).isLong, false);
  assert.deepEqual(choices(asked).map(({ decision }) => decision), ["once", "rule", "no"]);
  assert.equal(choices(asked)[0].label, "Allow for This Session");
  assert.deepEqual(choices({ ...asked, kind: "call" }).map(({ decision }) => decision), ["once", "always", "rule", "no"]);
});

test("the status bar has model, state and cost", () => {
  assert.equal(status({ model: "m", cost: 0.0123 }, "working"), "Newel · m · working… · $0.0123");
  assert.equal(status(undefined, "idle"), "Newel");
});

test("the transcript shows calls, their output up to a limit, and failures", () => {
  let written = "";
  const transcript = new Transcript((text) => (written += text));
  transcript.event({ type: "tool_execution_start", toolCallId: "1", toolName: "bash", args: { command: "seq 3\u001b" } });
  transcript.event({ type: "tool_execution_update", toolCallId: "1", delta: "1\n2\n" });
  transcript.event({ type: "tool_execution_end", toolCallId: "1", toolName: "bash", result: "exit code: 1", isError: true, duration: 100 });
  assert.equal(written, "● bash seq 3\\u{1b}\n  1\n  2\n  exit code: 1\n  failed after 0.1 s\n");
  written = "";
  transcript.event({ type: "tool_execution_start", toolCallId: "2", toolName: "bash", args: { command: "yes" } });
  for (let times = 0; times < 50; times += 1)
    transcript.event({ type: "tool_execution_update", toolCallId: "2", delta: "y\n".repeat(100) });
  assert.ok(written.split("\n").length < 210, String(written.split("\n").length));
  assert.match(written, /more output, not shown\n$/);
});

test("patches of one file are applied together, though one's context is another's change", () => {
  const first = patch("-15,6 +15,6", " l15", " l16", " l17", "-l18", "+L18", " l19", " l20");
  const second = patch("-17,4 +17,4", " l17", " l18", " l19", "-l20", "+L20");
  const after = applyPatches(numbered, [second, first]);
  assert.equal(after, numbered.replace("l18", "L18").replace("l20", "L20"));
  assert.equal(applyPatches(numbered.replace("l18", "L18"), [first], true), numbered);
  assert.deepEqual([firstLine(first), changedLines(first)], [18, "-l18 +L18"]);
});

test("files are created, deleted, and end without a line feed", () => {
  const created = "--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n";
  assert.equal(applyPatches("", [created]), "a\nb");
  assert.equal(applyPatches("a\nb", [created], true), "");
  const inserted = patch("-1,0 +2", "+a");
  assert.equal(applyPatches("one\ntwo\n", [inserted]), "one\na\ntwo\n");
  const ended = patch("-1 +1", "-a", "\\ No newline at end of file", "+a");
  assert.equal(applyPatches("a", [ended]), "a\n");
  const kept = patch("-1,2 +1,2", "-a", "+A", " b", "\\ No newline at end of file");
  assert.equal(applyPatches("a\nb", [kept]), "A\nb");
});

test("a patch that does not fit gives no text", () => {
  const one = patch("-2 +2", "-l2", "+L2");
  assert.equal(applyPatches("other\n", [one]), undefined);
  assert.equal(applyPatches(numbered, [one, one]), undefined);
  assert.equal(applyPatches("", ["Binary files a/x and b/x differ\n"]), undefined);
});
