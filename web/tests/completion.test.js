// If these fail, "@" and "/" complete in the wrong place of a message, or do not find what the user means.

import assert from "node:assert/strict";
import { test } from "node:test";

import { completedPart, isPlace, matchCommands, mentionOf, withFolders } from "../src/completion.js";

test("files are completed after an @ that begins a word, commands only at the start", () => {
  assert.deepEqual(completedPart("see @src/a"), { kind: "file", part: "src/a", start: 4 });
  assert.deepEqual(completedPart('(@"my fi'), { kind: "file", part: "my fi", start: 1 });
  assert.deepEqual(completedPart("@"), { kind: "file", part: "", start: 0 });
  assert.equal(completedPart("me@example.org"), null);
  assert.equal(completedPart("see @src/a now"), null);
  assert.deepEqual(completedPart("/re"), { kind: "command", part: "re", start: 0 });
  assert.deepEqual(completedPart("/web:co"), { kind: "command", part: "web:co", start: 0 });
  assert.equal(completedPart("/review it"), null);
  assert.equal(completedPart("and /re"), null);
});

test("a name with a space is quoted, and none with a quote is offered", () => {
  assert.equal(mentionOf("src/a.py"), "@src/a.py");
  assert.equal(mentionOf("my file.md"), '@"my file.md"');
  assert.deepEqual(withFolders(['a"b.md', "b.md"], "b"), ["b.md"]);
});

test("folders that are named come before their files", () => {
  const files = ["src/shop/cli.py", "src/shop/run.py"];
  assert.deepEqual(withFolders(files, "sho"), ["src/shop/", ...files]);
  assert.deepEqual(withFolders(files, "src/sh"), ["src/shop/", ...files]);
  assert.deepEqual(withFolders(files, "cli"), files);
});

test("the command that begins as typed comes first, and one with its letters after it", () => {
  const entries = ["permissions", "model", "commit"].map((name) => ({ name }));
  const names = (part) => matchCommands(entries, part).map(({ name }) => name);
  assert.deepEqual(names("m"), ["model", "commit", "permissions"]);
  assert.deepEqual(names("prm"), ["permissions"]);
  assert.deepEqual(names("zz"), []);
});

test("a path that names its place itself may lead out of the project", () => {
  for (const part of ["~", "~/", "~/no", "/", "/etc/ho", "./", "../src"]) assert.equal(isPlace(part), true, part);
  for (const part of ["", "src/", "a~", "~me", ".env", "..", "src/../a"]) assert.equal(isPlace(part), false, part);
});
