import assert from "node:assert/strict";
import { test } from "node:test";
import { awayWords, stateWords } from "../src/host-status.js";
import { fold, initialState } from "../src/store.js";

const host = (more) => ({ user: "me", host: "example.org", folder: "/srv/shop", state: "up", reason: "", latency: null, ...more });

test("a host that is gone is said with the reason, whatever that holds, and with what happens next", () => {
  assert.equal(awayWords(null), "");
  assert.equal(awayWords(host()), "");
  const lost = awayWords(host({ state: "lost", reason: "it \u001b[31mended\u202e." }));
  assert.match(lost, /^The connection to example\.org is lost: it ended.*\. Newel tries to get it back;/);
  assert.doesNotMatch(lost, /[\u001b\u202e]/);
  assert.match(awayWords(host({ state: "failed", reason: "no key was accepted" })), /no key was accepted\. Newel tries again when/);
});

test("a host that is slow is waited for: nothing is said to be impossible", () => {
  assert.equal(awayWords(host({ state: "slow", reason: "no answer for 4 s" })), "");
});

test("the way to a host is said in a word or two", () => {
  assert.equal(stateWords(host()), "");
  assert.equal(stateWords(host({ latency: 12 })), "12 ms");
  assert.equal(stateWords(host({ state: "slow", reason: "no answer for 4 s" })), "no answer for 4 s");
  assert.equal(stateWords(host({ state: "lost" })), "lost, trying again");
  assert.equal(stateWords(host({ state: "failed" })), "no connection");
});

test("the host is kept up to date beside what else the server said of itself", () => {
  const welcomed = fold(initialState(), { type: "welcome", server: "one", project: "/p", model: "m", tabs: [], servers: [], host: host() });
  const { hello } = fold(welcomed, { type: "host", host: host({ state: "lost" }) });
  assert.deepEqual([hello.model, hello.host.state], ["m", "lost"]);
});
