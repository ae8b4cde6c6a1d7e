// What a person does about the hunks of a file. Decisions are shown before the server has answered, and as it says afterwards.

import { tally } from "./hunks-patch.js";

const GUESSED = { accept: () => "accepted", reopen: (hunk) => (hunk.state === "accepted" ? "pending" : null) };

export class Deciding {
  /** `sync` is the file's EditorSync; `changed()` draws the hunks anew. */
  constructor({ path, api, review, sync, announce, changed }) {
    Object.assign(this, { path, api, review, sync, announce, changed });
    this.guessed = new Map(); // by hunk id: its state as it will be, or null for one that is under way
    this.asking = null; // the id of the hunk that asks what of it is to be dropped
    this.problem = ""; // why the last thing was not done
    this.progress = ""; // of something long
    this.job = null; // the job that can be run again
  }

  /** The hunks as they are shown. */
  get hunks() {
    const { hunks } = this.sync.known.view;
    if (this.guessed.size === 0) return hunks;
    return hunks.map((hunk) => (this.guessed.get(hunk.hunk_id) ? { ...hunk, state: this.guessed.get(hunk.hunk_id) } : hunk));
  }

  isBusy = (hunk) => this.guessed.get(hunk.hunk_id) === null;

  ask(hunk) {
    this.asking = hunk?.hunk_id ?? null;
    this.changed();
  }

  /** Resolves to whether it was done; false also for a hunk that asks what of it is to go. */
  async decide(hunk, action, mine = null) {
    if (action === "reject" && hunk.mine && !mine) {
      if (hunk.origin !== "user" && !hunk.conflict) return this.ask(hunk), false;
      mine = "base";
    }
    const id = hunk.hunk_id;
    if (this.guessed.has(id)) return false;
    this.guessed.set(id, GUESSED[action]?.(hunk) ?? null);
    this.asking = null;
    this.changed();
    const done = await this.#try(() => this.#decide(hunk, action, mine));
    this.guessed.delete(id);
    this.changed();
    if (done) this.announce(`${{ accept: "Accepted", reject: "Rejected", reopen: "To be decided again" }[action]}. ${this.#left()}`);
    return done;
  }

  async #decide(hunk, action, mine) {
    const same = () => this.sync.known.view.hunks.find((each) => each.hunk_id === hunk.hunk_id && each.patch === hunk.patch);
    const wanted = { accept: "accepted", reject: "rejected", reopen: "pending" }[action];
    const done = await this.sync.do(
      (rev) => this.#taken(this.api.decide(this.path, rev, action, { hunk: hunk.hunk_id, mine })),
      () => Boolean(same()) && same().state !== wanted,
    );
    if (done || same()?.state === wanted) return;
    throw new Error("The hunk is another one by now. Look at it again, then decide.");
  }

  async acceptAll() {
    const ids = this.hunks.filter((hunk) => hunk.state === "pending" && !hunk.conflict).map((hunk) => hunk.hunk_id);
    for (const id of ids) this.guessed.set(id, "accepted");
    this.changed();
    const act = (rev) => this.#taken(this.api.decide(this.path, rev, "accept_all_file"));
    const done = await this.#try(async () => {
      if (!(await this.sync.do(act, () => false))) throw new Error("The file has other hunks by now. Look at them, then accept.");
    });
    for (const id of ids) this.guessed.delete(id);
    this.changed();
    if (done) this.announce(`All accepted. ${this.#left()}`);
  }

  /** All that is not decided, but what the user wrote: that is asked hunk by hunk. */
  async rejectAll() {
    const hunks = this.hunks.filter((hunk) => hunk.state === "pending" && !hunk.mine);
    const kept = this.hunks.filter((hunk) => hunk.state === "pending" && hunk.mine && hunk.origin !== "user").length;
    const isDone = await this.#each(hunks, "reject", "Rejecting");
    if (!isDone) return;
    this.problem = kept > 0 ? "Hunks with lines of your own were left: reject them one by one." : "";
    this.changed();
    this.announce(`All rejected. ${this.problem} ${this.#left()}`);
  }

  async keepMine() {
    if (await this.#each(this.#conflicts(), "accept", "Keeping")) await this.save();
  }

  async takeTheirs() {
    const done = await this.#each(this.#conflicts(), "reject", "Rejecting");
    if (done) this.announce(`The file is as it is on disk there. ${this.#left()}`);
  }

  #conflicts = () => this.hunks.filter((hunk) => hunk.conflict && hunk.state !== "rejected");

  async #each(hunks, action, words) {
    const done = await this.#try(async () => {
      for (const [index, hunk] of hunks.entries()) {
        this.progress = hunks.length > 1 ? `${words} ${index + 1} of ${hunks.length}…` : "";
        this.changed();
        if (hunk.state !== "accepted" || action !== "accept") await this.#decide(hunk, action, hunk.mine ? "base" : null);
      }
    });
    this.progress = "";
    this.changed();
    return done;
  }

  /** Take the latest change of the file back ("undo"), or make it again ("redo"). Resolves to whether one was. */
  async step(kind) {
    const act = (rev) => this.#taken(this.api[kind](this.path, rev));
    try {
      const done = await this.sync.do(act, () => false);
      this.announce(done ? `${kind === "undo" ? "Undone" : "Done again"}. ${this.#left()}` : "The file changed elsewhere just now.");
      return done;
    } catch (error) {
      this.announce(error.message);
      return false;
    }
  }

  async save() {
    const done = await this.#try(async () => {
      const act = async (rev) => {
        await this.api.save([{ path: this.path, rev }]);
        return this.#taken(this.api.file(this.path));
      };
      const isSaved = await this.sync.do(act, () => false);
      if (!isSaved && tally(this.sync.known.view.hunks).toSave > 0) {
        throw new Error("The file was changed in another window just now. Look at it, then save again.");
      }
    });
    if (done) this.announce(`Saved. ${this.#left()}`);
    return done;
  }

  /** Look whether a job proposed what is a conflict now: it can be run again. */
  async findJob() {
    if (this.#conflicts().length === 0) {
      this.job = null;
      return;
    }
    const runs = this.review.get().pending?.find((file) => file.file_path === this.path)?.run_ids ?? [];
    const key = runs.join();
    if (this.job && this.job.key === key) return;
    this.job = { key, id: null };
    const jobs = await Promise.all(runs.map((run) => this.api.job(run).catch(() => null))); // a chat's run is no job
    const id = jobs.filter((job) => job?.status === "awaiting_review").at(-1)?.id ?? null;
    if (this.job?.key === key) this.job = { key, id };
    this.changed();
  }

  async rerun() {
    const done = await this.#try(() => this.api.rerun(this.job.id));
    if (done) this.announce("The job runs again on the file as it is now.");
  }

  // -- within -----------------------------------------------------------------------------------

  #taken = (answer) => this.review.take(this.path, answer);

  /** Resolves to whether it succeeded; why not stands in `problem`. */
  async #try(act) {
    this.problem = "";
    try {
      await act();
      return true;
    } catch (error) {
      this.problem = error.message;
      await this.sync.refresh();
      this.changed();
      this.announce(error.message);
      return false;
    }
  }

  #left() {
    const { undecided, toSave } = tally(this.hunks);
    return `${undecided} to decide, ${toSave} to save.`;
  }
}
