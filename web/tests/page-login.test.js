// If this fails, a link with a damaged token keeps a page from opening that has its key.

import assert from "node:assert/strict";
import { test } from "node:test";
import { tokenOf } from "../src/page-login.js";

test("an address has a token, or none that can be read", () => {
  assert.equal(tokenOf("http://127.0.0.1:8101/#token=a-b_c"), "a-b_c");
  for (const address of ["", "#/pending", "#token=", "#token=%"]) assert.equal(tokenOf(address), null, address);
});
