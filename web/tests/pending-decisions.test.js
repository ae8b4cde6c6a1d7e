// If these fail, decisions made offline are lost, repeated, or applied to something else.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createReview } from "../src/review/review-store.js";
import { typedKey, UnsentEdits } from "../src/review/unsent-edits.js";
import { choiceOf, PendingDecisions } from "../src/review/pending-decisions.js";

const STATES = { accept: "accepted", reject: "rejected", reopen: "pending" };
const tick = () => new Promise((resolve) => setImmediate(resolve));
const never = new Promise(() => {});
const lost = () => Object.assign(new Error("no connection"), { code: "connection" });
const refused = (code) => Object.assign(new Error(code), { code });

function random(seed) {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/** A browser's storage with `room` characters. */
const storage = (room = Infinity) =>
  Object.create({
    getItem(key) {
      return this[key] ?? null;
    },
    setItem(key, value) {
      if (value.length > room) throw new Error("QuotaExceededError");
      this[key] = value;
    },
    removeItem(key) {
      delete this[key];
    },
  });

/** The locks of a browser: each is held until its window closes. */
class Locks {
  held = new Set();

  async request(name, how, act = how) {
    if (this.held.has(name)) throw new Error("AbortError");
    this.held.add(name);
    const done = act();
    done.then(() => this.held.delete(name));
    return done;
  }

  query = async () => ({ held: [...this.held].map((name) => ({ name })) });
}

/** A server with one file of hunks. `isUp` and `loses` control requests: a lost answer is lost after the change. */
class Server {
  constructor(count) {
    this.rev = 1;
    this.hunks = Array.from({ length: count }, (_, at) => ({
      hunk_id: `h${at}`, patch: `@@ -${at}\n-${at}\n+NEW ${at}\n`, state: "pending", mine: false, conflict: false, start_line: at + 1, end_line: at + 1,
    }));
    this.isUp = true;
    this.loses = 0;
    this.requests = [];
  }

  view = () => ({ file_path: "a.md", rev: this.rev, hunks: this.hunks.map((hunk) => ({ ...hunk, seen_id: hunk.hunk_id })) });
  hunk = (id) => this.hunks.find((each) => each.hunk_id === id);
  states = () => this.hunks.map((each) => each.state);

  decide(rev, action, ids) {
    this.requests.push([action, ids.length]);
    if (rev !== this.rev) throw refused("stale_revision");
    const hunks = ids.map((id) => this.hunk(id) ?? assert.fail(`asked about ${id}, which is not there`));
    if (hunks.every((hunk) => hunk.state === STATES[action])) return;
    for (const hunk of hunks) hunk.state = STATES[action];
    this.rev += 1;
  }

  /** As another window or a terminal does. */
  others = (action, id) => this.decide(this.rev, action, [id]);
}

/** A window of the page; `reload` ends it and opens the next one. */
class Window {
  constructor(server, { local = storage(), session = storage(), locks = null } = {}) {
    Object.assign(this, { server, local, session, locks, isDead: false });
    const asked = async (act) => {
      await tick();
      if (this.isDead) return never;
      if (!this.server.isUp) throw lost();
      return act();
    };
    const decide = (rev, action, ids) => {
      server.decide(rev, action, ids);
      if (server.loses > 0 && server.loses--) throw lost();
      return server.view();
    };
    this.api = {
      isUp: true,
      pending: async () => ({ files: [], runs: [] }),
      file: () => asked(() => server.view()),
      decide: (path, rev, action, { hunks }) => asked(() => decide(rev, action, hunks)),
      untilUp: () => (this.isDead ? never : tick()),
    };
    this.review = createReview({ api: this.api });
    this.unsent = new UnsentEdits({ local, session, locks });
    this.waiting = new PendingDecisions(this);
  }

  async begin(project = "/project") {
    await this.unsent.begin(project);
    this.waiting.resume();
    return this;
  }

  choose = (id, choice) => this.waiting.choose("a.md", this.server.view().hunks.filter((each) => each.hunk_id === id), choice);

  link(isUp) {
    this.server.isUp = isUp;
    this.api.isUp = isUp;
    this.review.link(isUp);
  }

  async settled() {
    this.link(true);
    this.server.loses = 0;
    for (let left = 2_000; this.waiting.running.size > 0; left -= 1) {
      assert.ok(left > 0, "the decisions come to an end");
      await tick();
    }
    assert.deepEqual(Object.keys(this.review.get().waiting), []);
    assert.equal(this.unsent.get("decisions"), null);
  }

  end() {
    this.isDead = true;
    this.locks?.held.clear();
  }

  reload() {
    this.end();
    return new Window(this.server, this).begin();
  }
}

const inWindow = (count, options) => new Window(new Server(count), options).begin();

test("whatever is lost in between, each hunk ends in the state chosen last", async () => {
  for (let seed = 1; seed <= 400; seed += 1) {
    const next = random(seed);
    let here = await inWindow(4);
    const { server } = here;
    const wanted = server.states();
    for (let step = 0; step < 25; step += 1) {
      const what = next(10);
      const at = next(4);
      if (what < 5) {
        wanted[at] = ["accepted", "rejected", "pending"][next(3)];
        here.choose(`h${at}`, wanted[at]);
      } else if (what === 5) here.link(false);
      else if (what === 6) here.link(true);
      else if (what === 7) server.loses += 1;
      else if (what === 8) here = await here.reload();
      for (let ticks = next(5); ticks > 0; ticks -= 1) await tick();
    }
    await here.settled();
    assert.deepEqual([server.states(), here.review.get().dropped], [wanted, []], `seed ${seed}`);
  }
});

test("decisions of another window are kept, and skipped ones are reported", async () => {
  for (let seed = 1; seed <= 200; seed += 1) {
    const next = random(seed);
    let here = await inWindow(4);
    const { server } = here;
    here.link(false);
    const chosen = server.hunks.map(() => ["accepted", "rejected"][next(2)]);
    chosen.forEach((choice, at) => here.choose(`h${at}`, choice));
    const others = server.hunks.map((hunk) => ["accept", "reject", null, "change", "remove"][next(5)]);
    for (const [at, action] of others.entries()) {
      if (STATES[action]) server.others(action, `h${at}`);
      else if (action === "change") server.hunk(`h${at}`).patch += "+more\n";
      else if (action === "remove") server.hunks = server.hunks.filter((each) => each.hunk_id !== `h${at}`);
      server.rev += 1;
    }
    if (next(2)) here = await here.reload();
    await here.settled();
    let dropped = 0;
    for (const [at, action] of others.entries()) {
      const isOthers = STATES[action] ? STATES[action] !== chosen[at] : action !== null;
      dropped += isOthers ? 1 : 0;
      const state = isOthers ? (STATES[action] ?? "pending") : chosen[at];
      if (action !== "remove") assert.equal(server.hunk(`h${at}`).state, state, `seed ${seed}`);
    }
    assert.equal(here.review.get().dropped.length, dropped, `seed ${seed}`);
  }
});

test("a withdrawn decision is not applied, whether the server has it already or not", async () => {
  for (const isMade of [false, true]) {
    const here = await inWindow(2);
    if (isMade) here.server.loses = 1;
    else here.link(false);
    const done = here.choose("h0", "accepted");
    while (here.server.hunk("h0").state !== (isMade ? "accepted" : "pending")) await tick();
    here.link(false);
    here.waiting.withdraw("a.md", "h0");
    await here.settled();
    assert.deepEqual(here.server.states(), ["pending", "pending"]);
    await done;
  }
});

test("five hundred pending decisions are one request, and a split hunk does not block the others", async () => {
  const here = await inWindow(500);
  const { server } = here;
  here.link(false);
  for (const hunk of server.view().hunks) here.waiting.choose("a.md", [hunk], choiceOf("accept"));
  server.hunk("h7").patch = "@@ another\n+by now\n";
  server.rev += 1;
  await (await here.reload()).settled();
  assert.equal(server.states().filter((state) => state === "accepted").length, 499);
  assert.deepEqual(server.requests.at(-1), ["accept", 499]);
  assert.ok(server.requests.length <= 2);
});

test("a hunk that only moved is decided", async () => {
  const here = await inWindow(1);
  here.link(false);
  here.choose("h0", "accepted");
  const [hunk] = here.server.hunks;
  hunk.patch = hunk.patch.replace("@@ -0", "@@ -12").replace("\n", "\n other lines\n");
  here.server.rev += 1;
  await here.settled();
  assert.equal(hunk.state, "accepted");
});

test("without browser storage decisions are queued, and the page knows that they would be lost", async () => {
  for (const local of [null, storage(10)]) {
    const here = await inWindow(1, { local, session: null });
    here.link(false);
    here.choose("h0", "accepted");
    assert.equal(here.unsent.isKept, false);
    await here.settled();
    assert.deepEqual(here.server.states(), ["accepted"]);
  }
});

test("a closed window's entries are taken over by one of the same project, an open window's are not", async () => {
  const [local, locks] = [storage(), new Locks()];
  const first = await inWindow(2, { local, locks });
  first.link(false);
  first.choose("h0", "accepted");
  first.unsent.set(typedKey("a.md"), { rev: 1 });
  const beside = new Window(first.server, { local, locks });
  await beside.begin();
  assert.deepEqual([beside.unsent.get("decisions"), beside.unsent.typedPaths()], [null, []]);
  beside.isDead = true;
  first.end();
  const elsewhere = await new Window(first.server, { local, locks }).begin("/another");
  assert.deepEqual(elsewhere.unsent.typedPaths(), []);
  const after = new Window(first.server, { local, locks });
  const asked = [after.unsent.find(typedKey("a.md"))];
  const begun = after.begin();
  for (let ticks = 0; ticks < 3; ticks += 1) asked.push((await tick(), after.unsent.find(typedKey("a.md"))));
  await begun;
  assert.deepEqual(await Promise.all(asked), asked.map(() => ({ rev: 1 })), "an editor that opens early waits for it");
  await after.settled();
  assert.deepEqual(first.server.states(), ["accepted", "pending"]);
});
