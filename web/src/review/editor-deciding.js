// The user's decisions on the hunks of a file. They are shown at once, and corrected by the server's answer.

import { pluralize } from "../format.js";
import { countHunks, describeHunk, formatPlace, isUndecided } from "./hunk-format.js";
import { choiceOf, isOpen } from "./pending-decisions.js";
import { filesToSave, isReviewed, nextOf } from "./review-progress.js";
import { answerOf, revisionOf } from "./revisions.js";

const STATES = { accepted: "accepted", rejected: "rejected", pending: "pending" };
const SAID = { accept: "Accepted", reject: "Rejected", reopen: "Undecided again" };

export class EditorDecisions {
  /** `sync` is the file's EditorSync, `waiting` the page's PendingDecisions; `changed()` redraws the hunks. */
  constructor({ path, api, review, sync, waiting, announce, changed }) {
    Object.assign(this, { path, api, review, sync, waiting, announce, changed });
    this.asking = null; // the id of the hunk that asks what to discard
    this.refused = { words: "", rev: 0 }; // why the last action failed, and at which revision
    this.job = null; // the job that can be run again
  }

  /** The pending decisions, by hunk. */
  get #waiting() {
    return this.review.get().waiting[this.path];
  }

  /** Why the last action or a pending decision failed; "" for neither. */
  get problem() {
    const { words, rev } = this.refused;
    return (rev === this.sync.known.view.rev && words) || (this.review.get().dropped.findLast((each) => each.path === this.path)?.words ?? "");
  }

  /** The hunks as they are shown: with their pending decisions applied. */
  get hunks() {
    const { hunks } = this.sync.known.view;
    const waiting = this.#waiting;
    if (!waiting) return hunks;
    return hunks.map((hunk) => {
      const decision = waiting.get(hunk.hunk_id);
      const isSame = isOpen(decision) && hunk.state !== "rejected" && (decision.choice === "accepted" || decision.choice === "pending");
      return isSame ? { ...hunk, state: decision.choice } : hunk;
    });
  }

  /** The pending decision on a hunk: "accepted", "rejected", "pending", "peeled"; null for none. */
  wanted = (hunk) => {
    const decision = this.#waiting?.get(hunk.hunk_id);
    return isOpen(decision) ? decision.choice : null;
  };

  /** How a hunk is shown; see hunk-toolbar.js. */
  shown(hunk, index, total) {
    const wanted = this.wanted(hunk);
    const state = this.review.get();
    const { isUp } = state;
    const isBusy = isUp && wanted !== null && wanted !== hunk.state;
    return {
      hunk, number: index + 1, total, isBusy, waits: isUp ? null : wanted, isAsking: this.asking === hunk.hunk_id,
      revision: revisionOf(state, this.path, hunk), answer: answerOf(state, this.path, hunk), words: this.describe(hunk),
    };
  }

  describe(hunk) {
    const { base_file_hash: base, content } = this.sync.known.view;
    return describeHunk(hunk, { change: base === "none" ? "created" : content === null ? "deleted" : "modified" });
  }

  /** The counts of hunks, with pending decisions applied. */
  get counts() {
    return countHunks(this.hunks.map((hunk) => ({ ...hunk, state: STATES[this.wanted(hunk)] ?? hunk.state })));
  }

  /** The next undecided hunk after one, wrapping around; undefined for none. */
  nextAfter(hunk) {
    const { hunks } = this;
    const at = hunks.findIndex((each) => each.hunk_id === hunk.hunk_id);
    return nextOf(hunks, at, 1, (each) => each !== hunks[at] && this.isUndecided(each));
  }

  isUndecided = (hunk) => isUndecided(hunk) && !this.wanted(hunk);

  /** The other files that are left to save once all is reviewed; none before. */
  get otherFilesToSave() {
    const { pending } = this.review.get();
    return isReviewed(pending) ? filesToSave(pending).filter((file) => file.file_path !== this.path) : [];
  }

  ask = (hunk) => {
    this.asking = hunk?.hunk_id ?? null;
    this.changed();
  };

  /** Resolves to whether it was decided; false also for a hunk that asks what to discard. */
  async decide(hunk, action, mine = null) {
    if (action === "reject" && hunk.mine && !mine) {
      if (hunk.origin !== "user" && !hunk.conflict) return this.ask(hunk), false;
      mine = "base";
    }
    this.asking = null;
    const done = await this.#choose([hunk], choiceOf(action, mine), { base: mine === "base" });
    if (done) this.announce(`${SAID[action]}. ${this.#left()}`);
    return done;
  }

  withdraw = (hunk) => {
    this.waiting.withdraw(this.path, hunk.hunk_id);
    this.announce(`Undone. ${this.#left()}`);
  };

  async acceptAll() {
    const hunks = this.hunks.filter((hunk) => hunk.state === "pending" && !hunk.conflict);
    if (await this.#choose(hunks, "accepted")) this.announce(`All accepted. ${this.#left()}`);
  }

  /** Reject all undecided hunks but those with the user's own lines, which are asked about one by one. */
  async rejectAll() {
    const hunks = this.hunks.filter((hunk) => hunk.state === "pending" && !hunk.mine);
    const kept = this.hunks.filter((hunk) => hunk.state === "pending" && hunk.mine && hunk.origin !== "user").length;
    if (!(await this.#choose(hunks, "rejected"))) return;
    const words = kept > 0 ? "Hunks with your own lines were skipped: reject them one by one." : "";
    this.#refuse(words);
    this.announce(`All rejected. ${words} ${this.#left()}`);
  }

  async keepProposal() {
    const done = await this.#choose(this.#conflicts(), "accepted");
    if (done) this.announce(`Accepted. ${this.#left()}`);
    return done;
  }

  async keepFile() {
    const done = await this.#choose(this.#conflicts(), "rejected", { base: true });
    if (done) this.announce(`Kept the file on disk. ${this.#left()}`);
    return done;
  }

  #conflicts = () => this.hunks.filter((hunk) => hunk.conflict && hunk.state !== "rejected");

  async #choose(hunks, choice, { base = false } = {}) {
    this.#refuse("");
    const { isDone, problem } = await this.waiting.choose(this.path, hunks, choice, { base, isTyped: (hunk) => this.sync.touches(hunk) });
    this.#refuse(problem);
    if (problem) this.announce(problem);
    return isDone;
  }

  #refuse(words) {
    this.refused = { words, rev: this.sync.known.view.rev };
    this.changed();
  }

  /** Undo or redo the latest change of the file; resolves to whether there was one. */
  async step(kind) {
    const act = (rev) => this.#taken(this.api[kind](this.path, rev));
    try {
      await this.waiting.settled(this.path);
      const done = await this.sync.do(act, () => false);
      this.announce(done ? `${kind === "undo" ? "Undone" : "Redone"}. ${this.#left()}` : "The file has just changed elsewhere.");
      return done;
    } catch (error) {
      this.announce(error.message);
      return false;
    }
  }

  /** Replace a hunk by its parts. */
  split = async (hunk) => {
    const done = await this.#try(async () => {
      await this.waiting.settled(this.path);
      const isSplit = await this.sync.do((rev) => this.#taken(this.api.decide(this.path, rev, "split", { hunks: [hunk.seen_id] })), () => false);
      if (!isSplit) throw new Error("The file was changed in another window. Check it, then split again.");
    });
    if (done) this.announce(`Split. ${this.#left()}`);
  };

  async save() {
    let written = 0;
    const done = await this.#try(async () => {
      const act = async (rev) => {
        const { saved_files: [saved] } = await this.api.save([{ path: this.path, rev }]);
        written = saved.saved_hunks;
        return this.#taken(this.api.file(this.path));
      };
      await this.waiting.settled(this.path);
      const isSaved = await this.sync.do(act, () => false);
      if (!isSaved && this.counts.toSave > 0) {
        throw new Error("The file was changed in another window. Check it, then save again.");
      }
    });
    if (!done) return false;
    const waiting = this.hunks.filter((hunk) => isUndecided(hunk) && hunk.mine);
    if (written === 0 && waiting.length > 0) {
      const words = `Nothing was saved: your edit in ${formatPlace(waiting[0])} is part of a hunk that is not decided. Accept or reject it first.`;
      this.#refuse(words);
      this.announce(words);
      return false;
    }
    this.announce(`Saved. ${this.#left()}`);
    return true;
  }

  /** Save this file, and all others once all is reviewed. */
  async saveReviewed() {
    const hasOthers = this.otherFilesToSave.length > 0;
    if (!(await this.save()) || !hasOthers) return;
    const done = await this.#try(async () => {
      const saved = await this.waiting.saveAccepted();
      this.review.touch();
      this.announce(`Saved. ${pluralize(saved.length, "other file")} saved, too.`);
    });
    if (!done) this.review.touch();
  }

  /** Find the job whose proposal is in conflict: it can be re-run. */
  async findJob() {
    if (this.#conflicts().length === 0) {
      this.job = null;
      return;
    }
    const runs = this.review.get().pending?.find((file) => file.file_path === this.path)?.run_ids ?? [];
    const key = runs.join();
    if (this.job && this.job.key === key) return;
    this.job = { key, id: null };
    const jobs = await Promise.all(runs.map((run) => this.api.job(run).catch(() => null))); // a chat's run is not a job
    const id = jobs.filter((job) => job?.status === "awaiting_review").at(-1)?.id ?? null;
    if (this.job?.key === key) this.job = { key, id };
    this.changed();
  }

  async rerun() {
    const done = await this.#try(() => this.api.rerun(this.job.id));
    if (done) this.announce("Re-running the job on the current file.");
  }

  // -- within -----------------------------------------------------------------------------------

  #taken = (answer) => this.review.take(this.path, answer);

  /** Run an action; resolves to whether it succeeded. `problem` has the reason if not. */
  async #try(act) {
    this.#refuse("");
    try {
      await act();
      return true;
    } catch (error) {
      await this.sync.refresh();
      this.#refuse(error.message);
      this.announce(error.message);
      return false;
    }
  }

  #left() {
    const { undecided, toSave } = this.counts;
    const others = (this.review.get().pending ?? []).filter((file) => file.pending > 0 && file.file_path !== this.path).length;
    const more = undecided === 0 && others > 0 ? ` ${pluralize(others, "file")} left: J goes to the next.` : "";
    return `${undecided} to decide, ${toSave} to save.${more}`;
  }
}
