// Decisions on hunks, from the click until the server has them.
//
// A decision says what a hunk is to be. So what was made twice is made once, and where an answer was lost it is looked whether the
// hunk is so before it is asked again. Without a connection decisions wait, in their order, over a reload as well; each can be
// taken back until it is made. A hunk that is another one by then, or was decided elsewhere, is left alone, and that is said.

import { hashText } from "./text-hash.js";

const KEPT = "decisions"; // their name among what is not sent
const TRIES = 5; // with a newer revision each time
const MOST_SAID = 20; // decisions that were not made, and are named

const ACTIONS = { accepted: "accept", rejected: "reject", pending: "reopen", peeled: "peel" };

/** What a hunk is to be by an action: "accept", "reject", "reopen"; `mine` says what becomes of the user's own lines. */
export const choiceOf = (action, mine = null) =>
  mine === "peel" ? "peeled" : { accept: "accepted", reject: "rejected", reopen: "pending" }[action];

/** By what a hunk is known again: the same change, wherever in the file and beside whatever it stands by now. */
const fingerprintOf = (hunk) => hashText([hunk.conflict, ...hunk.patch.split("\n").filter((line) => !/^[@ ]/.test(line))].join("\n"));

const isDecidedAs = (hunk, choice) => (choice === "peeled" ? hunk.state === "pending" && !hunk.mine : hunk.state === choice);

/** Whether a decision changes anything, as far as it is known: one that was taken back does not. */
export const isOpen = (decision) => decision !== undefined && decision.choice !== decision.from;

export class PendingDecisions {
  /** What waits is told to `review` as `waiting`, by path and hunk: {choice, from}; what was not made as `dropped`: {path, words}. */
  constructor({ api, review, unsent }) {
    Object.assign(this, { api, review, unsent });
    this.files = new Map(); // path → hunk id → decision, in their order
    this.lanes = new Map(); // path → what does something with the file, after what else is done with it
    this.running = new Map(); // path → the making of its decisions
    review.subscribe(({ isUp }) => isUp || this.#all().forEach((decision) => (decision.hasWaited = true)));
  }

  /** Go on with what was kept. */
  resume() {
    for (const [path, id, fields] of this.unsent.get(KEPT) ?? []) {
      if (!this.of(path).has(id)) this.of(path).set(id, { ...fields, id, hasWaited: true, ends: [] });
    }
    for (const path of this.files.keys()) this.#go(path);
  }

  /**
   * A file's decisions are made by `lane(act)` from now on: it calls `act(view)` with the file as it is known, once more with a
   * newer one if that was too old, and takes over the view that it resolves to. Returns what ends that.
   */
  attach(path, lane) {
    this.lanes.set(path, lane);
    return () => this.lanes.get(path) === lane && this.lanes.delete(path);
  }

  /**
   * Hunks of a file, as they are shown, are to be "accepted", "rejected", "pending" again, or "peeled" of the user's own lines.
   * `base`: such lines go as well where one is rejected. `isTyped(hunk)`: something was typed in it that the server does not know yet, and counts.
   * Resolves to {isDone, problem} once all of that is decided, or taken back.
   */
  async choose(path, hunks, choice, { base = false, isTyped = () => false } = {}) {
    const ends = hunks.map((hunk) => new Promise((resolve) => {
      const file = this.of(path);
      const known = file.get(hunk.hunk_id);
      const decision = known ?? { id: hunk.hunk_id, hashText: isTyped(hunk) ? null : fingerprintOf(hunk), from: hunk.state, tried: [], ends: [] };
      Object.assign(decision, { choice, base, hasWaited: decision.hasWaited || !this.api.isUp });
      decision.ends.push(resolve);
      file.delete(decision.id);
      file.set(decision.id, decision);
      if (!isOpen(decision) && decision.tried.length === 0) this.#end(path, decision, { isDone: false, problem: "" });
    }));
    this.#go(path);
    const done = await Promise.all(ends);
    return { isDone: done.every((each) => each.isDone), problem: done.find((each) => each.problem)?.problem ?? "" };
  }

  /** Resolves once what was decided so far is made or taken back, in a file or, for null, in all. */
  settled = (path = null) => (path === null ? Promise.all(this.running.values()) : this.running.get(path));

  /** Let a hunk be as it was before it was decided. */
  withdraw(path, id) {
    const decision = this.of(path).get(id);
    if (decision) this.choose(path, [{ hunk_id: id, state: decision.from }], decision.from);
  }

  /** Let all be as it was. */
  withdrawAll() {
    for (const [path, file] of this.files) for (const id of [...file.keys()]) this.withdraw(path, id);
  }

  /** The user has read what was not made. */
  dismiss = () => this.review.put({ dropped: [] });

  /** The decisions of a file. */
  of(path) {
    if (!this.files.has(path)) this.files.set(path, new Map());
    return this.files.get(path);
  }

  // -- within -----------------------------------------------------------------------------------

  #all = () => [...this.files.values()].flatMap((file) => [...file.values()]);

  #go(path) {
    this.#changed(path);
    if (this.of(path).size > 0 && !this.running.has(path)) this.running.set(path, this.#run(path));
  }

  async #run(path) {
    while (this.of(path).size > 0) {
      try {
        await (this.lanes.get(path) ?? this.#alone(path))((view) => this.#make(path, view));
      } catch (error) {
        if (error.code === "connection") await this.api.untilUp();
        else for (const each of this.#next(path)) this.#drop(path, each, error.message);
      }
      this.#changed(path);
    }
    this.running.delete(path);
    this.files.delete(path);
  }

  /** The lane of a file that is open nowhere. */
  #alone = (path) => async (act) => {
    const read = () => this.review.take(path, this.api.file(path));
    const known = this.review.get().files[path];
    let view = known?.hunks && !known.problem ? known : await read();
    for (let left = TRIES; ; left -= 1) {
      try {
        return await act(view);
      } catch (error) {
        if (error.code !== "stale_revision" || left <= 1) throw error;
        view = await read();
      }
    }
  };

  /** The first decisions that are one request: the same of several hunks. */
  #next(path) {
    const all = [...this.of(path).values()];
    const end = all.findIndex((each) => each.choice !== all[0].choice || each.base !== all[0].base);
    return end < 0 ? all : all.slice(0, end);
  }

  async #make(path, view) {
    this.#sift(path, view);
    const some = this.#next(path);
    if (some.length === 0) return null;
    const [{ choice, base }] = some;
    for (const each of some) if (!each.tried.includes(choice)) each.tried.push(choice);
    this.#changed(path);
    const ids = new Set(some.map((each) => each.id));
    const hunks = view.hunks.filter((hunk) => ids.has(hunk.hunk_id)).map((hunk) => hunk.seen_id);
    const next = await this.review.take(path, this.api.decide(path, view.rev, ACTIONS[choice], { hunks, mine: base ? "base" : null }));
    this.#sift(path, next, ids);
    return next;
  }

  /** End the decisions that are so, and those on what is not what it was; of `made` it is known how they came out. */
  #sift(path, view, made = new Set()) {
    const hunks = new Map(view.hunks.map((hunk) => [hunk.hunk_id, hunk]));
    for (const decision of [...this.of(path).values()]) {
      const hunk = hunks.get(decision.id);
      const { choice, tried } = decision;
      if (hunk ? isDecidedAs(hunk, choice) : made.has(decision.id) && tried.at(-1) === choice) this.#end(path, decision, { isDone: true, problem: "" });
      else if (!hunk) this.#drop(path, decision, "it is not there any more");
      else if (made.has(decision.id)) decision.hashText = fingerprintOf(hunk); // chosen anew meanwhile
      else if ((decision.hashText ??= fingerprintOf(hunk)) !== fingerprintOf(hunk)) this.#drop(path, decision, "it is another one by now", hunk);
      else if (hunk.state !== decision.from && !tried.includes(hunk.state)) this.#drop(path, decision, `it is ${hunk.state} by now`, hunk);
      else if (choice === "rejected" && hunk.mine && !decision.base) this.#drop(path, decision, "it holds lines of yours: say what of it goes", hunk);
    }
  }

  #drop(path, decision, why, hunk = null) {
    const where = hunk ? ` at line ${Math.max(hunk.start_line, 1)}` : "";
    const words = hunk || why.startsWith("it ") ? `A hunk${where} was not decided: ${why}.` : why;
    if (decision.hasWaited) this.review.put({ dropped: [...this.review.get().dropped, { path, words }].slice(-MOST_SAID) });
    this.#end(path, decision, { isDone: false, problem: `${words} Look at it, then decide.` });
  }

  #end(path, decision, how) {
    this.of(path).delete(decision.id);
    for (const end of decision.ends) end(how);
  }

  /** Keep what waits, and tell it. */
  #changed(path) {
    const all = [...this.files].flatMap(([each, file]) => [...file.values()].map(({ id, ends, hasWaited, ...fields }) => [each, id, fields]));
    this.unsent.set(KEPT, all.length > 0 ? all : null);
    const { [path]: _, ...waiting } = this.review.get().waiting;
    const here = new Map([...this.of(path).values()].map(({ id, choice, from }) => [id, { choice, from }]));
    this.review.put({ waiting: here.size > 0 ? { ...waiting, [path]: here } : waiting });
  }
}
