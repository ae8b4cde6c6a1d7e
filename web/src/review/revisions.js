// Hunks that an agent proposes anew, on the user's word: the jobs under way, and how those ended that proposed nothing.
//
// In the review's state: `revising`, the RevisingJobs of all sessions, and `answers`, {path, seen, words} of such ended jobs.

import { rootOf } from "./api.js";
import { isLive } from "./job-state.js";

const MAX_ANSWERS = 20; // answers that are kept, the latest

/** The job that proposes a hunk anew; null for none. */
export const revisionOf = ({ revising }, path, hunk) =>
  revising.findLast((job) => job.file_path === path && rootOf(job.hunk_id) === hunk.hunk_id) ?? null;

/** Why the last job about this version of a hunk proposed nothing; "" for none. */
export const answerOf = ({ answers }, path, hunk) =>
  answers.findLast((each) => each.path === path && each.seen === hunk.seen_id)?.words ?? "";

/** Whether an agent may propose a hunk anew: it has lines, and none of the user's own. */
export const isRevisable = (hunk) => hunk.kind === "lines" && hunk.origin === "agent" && !hunk.mine && hunk.state !== "applied";

/** Describe a revision under way: "being revised: In French". */
export const describeRevision = ({ status, instruction }) =>
  `${{ queued: "to be revised", waiting_for_user: "the agent asks about it" }[status] ?? "being revised"}: ${instruction}`;

export class Revisions {
  constructor({ api, review, announce }) {
    Object.assign(this, { api, review, announce });
  }

  /** Follow a job that was just started: it may end before the server lists it. */
  started(job) {
    const { revising } = this.review.get();
    if (!revising.some((each) => each.job_id === job.job_id)) this.review.put({ revising: [...revising, job] });
  }

  /** Adopt the jobs that the server lists. */
  take(jobs) {
    const before = this.review.get().revising;
    if (JSON.stringify(jobs) === JSON.stringify(before)) return;
    this.review.put({ revising: jobs });
    const ids = new Set(jobs.map((job) => job.job_id));
    for (const job of before) if (!ids.has(job.job_id)) this.#ended(job);
  }

  async #ended(listed) {
    const job = await this.api.job(listed.job_id).catch(() => null); // it may be deleted
    if (!job) return;
    if (isLive(job.status)) return this.started(listed); // the list was older than the job
    const words = { failed: job.error, completed: job.proposed_edits.length === 0 ? job.summary || "The agent proposed nothing new." : "" }[job.status] ?? "";
    this.announce(words ? `No new version: ${words}` : "The agent proposed a new version of the hunk.");
    if (!words) return;
    const { file_path: path, hunk_id: seen } = job.revise;
    this.review.put({ answers: [...this.review.get().answers, { path, seen, words }].slice(-MAX_ANSWERS) });
  }
}
