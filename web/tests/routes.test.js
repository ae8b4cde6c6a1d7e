// If these fail, a URL opens another file than its own, or one that a web page has linked to breaks the page for good.

import assert from "node:assert/strict";
import { test } from "node:test";

import { compareId, fileId, foldersOf, hashOf, idOf, parsePlace, requestId, titleOf } from "../src/review/routes.js";

const PATHS = ["a.py", "src/deep/b.js", "with space/ü#?%.txt", "a/compare/b", "pending", "😀"];

test("a URL parses to its place", () => {
  for (const path of PATHS) {
    for (const id of [fileId(path), compareId("cp_1", path), "pending", "checkpoints", "requests", requestId("job_1")]) {
      assert.equal(idOf(hashOf(id)), id);
      assert.equal(new URL(hashOf(id), "http://127.0.0.1/").hash, hashOf(id));
    }
    assert.deepEqual(parsePlace(fileId(path)), { kind: "file", path });
    assert.deepEqual(parsePlace(compareId("cp_1", path)), { kind: "compare", checkpoint: "cp_1", path });
  }
});

test("an invalid URL has no place", () => {
  for (const hash of ["", "#", "#/", "#/tab/1", "#/file", "#/file/", "#/compare/cp_1", "#/%ff", "#token=x", "#/nothing", "#/request/", "#/request/a/b", "#/constructor", "#/toString/x", "#/__proto__"]) {
    assert.equal(idOf(hash), null, hash);
  }
});

test("a place is named by its file", () => {
  assert.equal(titleOf(fileId("src/a.py")), "a.py");
  assert.equal(titleOf("pending"), "All pending changes");
});

test("files of the same name are distinguished by as many folders as necessary", () => {
  const folders = foldersOf(["a/x/__init__.py", "b/x/__init__.py", "b/y/__init__.py", "__init__.py", "a/main.py"]);
  assert.deepEqual(Object.fromEntries(folders), {
    "a/x/__init__.py": "a/x", "b/x/__init__.py": "b/x", "b/y/__init__.py": "y", "__init__.py": "./", "a/main.py": "",
  });
});
