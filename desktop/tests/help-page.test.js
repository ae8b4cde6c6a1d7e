import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { ended, helpUrl, notInstalled, notStarted, starting, startingSlowly } from "../src/help-page.js";
import { destinationOf } from "../src/navigation.js";

const htmlOf = (/** @type {import("../src/help-page.js").Help} */ help) => Buffer.from(helpUrl(help).split("base64,")[1] ?? "", "base64").toString();
const hrefsOf = (/** @type {string} */ html) => [...html.matchAll(/href="([^"]+)"/g)].map((found) => found[1] ?? "");

test("each page has a way out, and says the folder", () => {
  for (const help of [startingSlowly("/p", "log"), notInstalled("/p", true), notInstalled("/p", false), notStarted("/p", "why", "log"), ended("/p", "why", "log")]) {
    const html = htmlOf(help);
    assert.ok(html.includes("/p"), help.title);
    const actions = hrefsOf(html).map((url) => destinationOf(url, { origin: null, isHelp: true }));
    assert.ok(actions.length >= 2, help.title);
    assert.ok(actions.every(({ kind }) => kind === "action"), help.title);
  }
  assert.ok(htmlOf(starting("/p")).includes("Starting Newel"));
});

test("the log and what to install are shown", () => {
  assert.ok(htmlOf(notStarted("/p", "Newel ended with exit code 3.", "ImportError: no module")).includes("ImportError: no module"));
  assert.ok(htmlOf(notInstalled("/p", true)).includes("pipx install uv"));
  assert.ok(htmlOf(notInstalled("/p", false)).includes("uv tool install ."));
  assert.ok(htmlOf(ended("/p", "why", "")).includes("Nothing is lost"));
});

test("a hostile log or folder stays text, on a page without scripts", () => {
  const hostile = '<script>alert(1)</script><img src=x onerror="alert(1)"> & "quoted" \u202e';
  const html = htmlOf(notStarted(`/${hostile}`, hostile, hostile));
  assert.ok(!/<script|<img|\u202e/.test(html));
  const policy = /content="([^"]+)"/.exec(html)?.[1] ?? "";
  assert.ok(policy.includes("default-src 'none'"));
  assert.ok(!policy.includes("script-src"));
  const style = /<style>([^]*)<\/style>/.exec(html)?.[1] ?? "";
  assert.ok(policy.includes(createHash("sha256").update(style).digest("base64")), "its own style is allowed");
});
