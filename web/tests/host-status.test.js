import assert from "node:assert/strict";
import { test } from "node:test";
import { describeOutage, describeState } from "../src/host-status.js";
import { reduce, initialState } from "../src/store.js";

const host = (more) => ({ user: "me", host: "example.org", folder: "/srv/shop", state: "up", reason: "", latency: null, ...more });

test("a lost host is described with any reason and what happens next", () => {
  assert.equal(describeOutage(null), "");
  assert.equal(describeOutage(host()), "");
  const lost = describeOutage(host({ state: "lost", reason: "it \u001b[31mended\u202e." }));
  assert.match(lost, /^Connection to example\.org lost: it ended.*\. Reconnecting…/);
  assert.doesNotMatch(lost, /[\u001b\u202e]/);
  assert.match(describeOutage(host({ state: "failed", reason: "no key was accepted" })), /no key was accepted\. Newel reconnects with/);
});

test("a slow host is waited for: nothing is described as impossible", () => {
  assert.equal(describeOutage(host({ state: "slow", reason: "no answer for 4 s" })), "");
});

test("the state of the connection is a word or two", () => {
  assert.equal(describeState(host()), "");
  assert.equal(describeState(host({ latency: 12 })), "12 ms");
  assert.equal(describeState(host({ state: "slow", reason: "no answer for 4 s" })), "no answer for 4 s");
  assert.equal(describeState(host({ state: "lost" })), "reconnecting");
  assert.equal(describeState(host({ state: "failed" })), "disconnected");
});

test("the host is updated within the server's welcome", () => {
  const welcomed = reduce(initialState(), { type: "welcome", server: "one", project: "/p", model: "m", tabs: [], servers: [], host: host() });
  const { hello } = reduce(welcomed, { type: "host", host: host({ state: "lost" }) });
  assert.deepEqual([hello.model, hello.host.state], ["m", "lost"]);
});
