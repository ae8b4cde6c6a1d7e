// Decisions on hunks, from the click until the server has applied them.
//
// A decision names the state that a hunk should have, so it is idempotent: after a lost answer the hunk's state is checked before
// the request is repeated. Without a connection decisions are queued in order, also over a reload, and can be withdrawn. A hunk
// that has changed by then, or was decided elsewhere, is skipped, and that is reported.

import { dictionary } from "../dictionary.js";
import { filesToSave } from "./review-progress.js";
import { hashText } from "./text-hash.js";

const STORAGE_KEY = "decisions"; // their key in UnsentEdits
const MAX_ATTEMPTS = 5; // attempts, each with a newer revision
const MAX_DROPPED = 20; // failed decisions that are listed

const ACTIONS = { accepted: "accept", rejected: "reject", pending: "reopen", peeled: "peel" };

/** The state that an action leads to: "accept", "reject", "reopen"; `mine` is what to do with the user's own lines. */
export const choiceOf = (action, mine = null) =>
  mine === "peel" ? "peeled" : { accept: "accepted", reject: "rejected", reopen: "pending" }[action];

/** A hash of the change itself, without its position and context, by which a hunk is recognized. */
const fingerprintOf = (hunk) => hashText([hunk.conflict, ...hunk.patch.split("\n").filter((line) => !/^[@ ]/.test(line))].join("\n"));

const isDecidedAs = (hunk, choice) => (choice === "peeled" ? hunk.state === "pending" && !hunk.mine : hunk.state === choice);

/** Whether a decision changes anything; a withdrawn one does not. */
export const isOpen = (decision) => decision !== undefined && decision.choice !== decision.from;

export class PendingDecisions {
  /** Publishes to `review`: pending decisions as `waiting`, by path and hunk: {choice, from}; failed ones as `dropped`: {path, words}. */
  constructor({ api, review, unsent }) {
    Object.assign(this, { api, review, unsent });
    this.files = new Map(); // path → hunk id → decision, in order
    this.lanes = new Map(); // path → a function that runs actions on the file, one after another
    this.running = new Map(); // path → promise of its requests
    review.subscribe(({ isUp }) => isUp || this.#all().forEach((decision) => (decision.hasWaited = true)));
  }

  /** Resume with the stored decisions. */
  resume() {
    for (const [path, id, fields] of this.unsent.get(STORAGE_KEY) ?? []) {
      if (!this.of(path).has(id)) this.of(path).set(id, { ...fields, id, hasWaited: true, ends: [] });
    }
    for (const path of this.files.keys()) this.#go(path);
  }

  /**
   * Use `lane(act)` for a file's decisions from now on: it calls `act(view)` with the current view of the file, again with a
   * newer one if that is stale, and applies the view it resolves to. Returns a function that detaches the lane.
   */
  attach(path, lane) {
    this.lanes.set(path, lane);
    return () => this.lanes.get(path) === lane && this.lanes.delete(path);
  }

  /**
   * Decide on hunks of a file as they are shown: "accepted", "rejected", "pending", or "peeled" of the user's own lines. `base`:
   * whether a rejection discards such lines, too. `isTyped(hunk)`: whether it contains unsent text, which belongs to it.
   * Resolves to {isDone, problem} once all hunks are decided or withdrawn.
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

  /** Resolves once the decisions so far are applied or withdrawn, in a file or, for null, in all. */
  settled = (path = null) => (path === null ? Promise.all(this.running.values()) : this.running.get(path));

  /** Save the files with accepted changes, including those decided just before; see `filesToSave`. Resolves to the saved files. */
  async saveAccepted() {
    await this.settled();
    const files = filesToSave((await this.api.pending()).files);
    if (files.length === 0) return [];
    return (await this.api.save(files.map(({ file_path: path, rev }) => ({ path, rev })))).saved_files;
  }

  /** Withdraw the decision on a hunk. */
  withdraw(path, id) {
    const decision = this.of(path).get(id);
    if (decision) this.choose(path, [{ hunk_id: id, state: decision.from }], decision.from);
  }

  /** Withdraw all decisions. */
  withdrawAll() {
    for (const [path, file] of this.files) for (const id of [...file.keys()]) this.withdraw(path, id);
  }

  /** Dismiss the list of failed decisions. */
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

  /** The lane of a file that is not open. */
  #alone = (path) => async (act) => {
    const read = () => this.review.take(path, this.api.file(path));
    const known = this.review.get().files[path];
    let view = known?.hunks && !known.problem ? known : await read();
    for (let left = MAX_ATTEMPTS; ; left -= 1) {
      try {
        return await act(view);
      } catch (error) {
        if (error.code !== "stale_revision" || left <= 1) throw error;
        view = await read();
      }
    }
  };

  /** The first decisions that form one request: the same choice for several hunks. */
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

  /** Complete the decisions that are applied, and drop those whose hunks changed; those on `made` were just sent. */
  #sift(path, view, made = new Set()) {
    const hunks = new Map(view.hunks.map((hunk) => [hunk.hunk_id, hunk]));
    for (const decision of [...this.of(path).values()]) {
      const hunk = hunks.get(decision.id);
      const { choice, tried } = decision;
      if (hunk ? isDecidedAs(hunk, choice) : made.has(decision.id) && tried.at(-1) === choice) this.#end(path, decision, { isDone: true, problem: "" });
      else if (!hunk) this.#drop(path, decision, "it no longer exists");
      else if (made.has(decision.id)) decision.hashText = fingerprintOf(hunk); // decided again meanwhile
      else if ((decision.hashText ??= fingerprintOf(hunk)) !== fingerprintOf(hunk)) this.#drop(path, decision, "it has changed", hunk);
      else if (hunk.state !== decision.from && !tried.includes(hunk.state)) this.#drop(path, decision, `it is already ${hunk.state}`, hunk);
      else if (choice === "rejected" && hunk.mine && !decision.base) this.#drop(path, decision, "it contains your lines; choose what to discard", hunk);
    }
  }

  #drop(path, decision, why, hunk = null) {
    const where = hunk ? ` at line ${Math.max(hunk.start_line, 1)}` : "";
    const words = hunk || why.startsWith("it ") ? `A hunk${where} was not decided: ${why}.` : why;
    if (decision.hasWaited) this.review.put({ dropped: [...this.review.get().dropped, { path, words }].slice(-MAX_DROPPED) });
    this.#end(path, decision, { isDone: false, problem: `${words} Check it, then decide.` });
  }

  #end(path, decision, how) {
    this.of(path).delete(decision.id);
    for (const end of decision.ends) end(how);
  }

  /** Store and publish the pending decisions. */
  #changed(path) {
    const all = [...this.files].flatMap(([each, file]) => [...file.values()].map(({ id, ends, hasWaited, ...fields }) => [each, id, fields]));
    this.unsent.set(STORAGE_KEY, all.length > 0 ? all : null);
    const waiting = dictionary(this.review.get().waiting);
    const here = new Map([...this.of(path).values()].map(({ id, choice, from }) => [id, { choice, from }]));
    if (here.size > 0) waiting[path] = here;
    else delete waiting[path];
    this.review.put({ waiting });
  }
}
