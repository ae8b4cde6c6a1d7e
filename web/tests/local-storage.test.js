// If these fail, a value that something else has left in the browser's storage keeps the page from opening.

import assert from "node:assert/strict";
import { test } from "node:test";
import { localStore, removedBy } from "../src/local-storage.js";

test("a stored list has nothing but texts", (t) => {
  const stored = new Map();
  globalThis.window = { localStorage: { getItem: (key) => stored.get(key) ?? null } };
  t.after(() => delete globalThis.window);
  for (const damaged of ['{"a":1}', "5", '"pending"', "null", "not JSON"]) {
    stored.set("newel:places", damaged);
    assert.deepEqual(localStore.list("places"), [], damaged);
  }
  stored.set("newel:places", '["pending", 1, null, {}]');
  assert.deepEqual(localStore.list("places"), ["pending"]);
});

test("a damaged entry that another window removes is no error", () => {
  assert.deepEqual(removedBy({ key: "newel:draft:t", oldValue: "{", newValue: null }), { key: "draft:t", old: null });
});
