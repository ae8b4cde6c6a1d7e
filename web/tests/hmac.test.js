import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { test } from "node:test";
import { hmac, sha256 } from "../src/hmac.js";

test("a hash is that of Node.js, at every length about a block", () => {
  for (let length = 0; length < 300; length += 1) {
    const bytes = Uint8Array.from({ length }, (_, index) => (index * 167 + length) % 256);
    assert.equal(Buffer.from(sha256(bytes)).toString("hex"), createHash("sha256").update(bytes).digest("hex"), `${length} bytes`);
  }
});

test("a code is that of Node.js, also with keys that are longer than a block", () => {
  for (const key of ["", "k", "x".repeat(63), "x".repeat(64), "x".repeat(65), "é".repeat(128)]) {
    for (const text of ["", "page nonce", "ü€😀".repeat(50)]) {
      assert.equal(hmac(key, text), createHmac("sha256", key).update(text).digest("hex"));
    }
  }
});
