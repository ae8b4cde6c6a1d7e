// The state of the review agent: the current session, and the current job in it.
//
//   session   the oldest SessionView with a question, else the latest active one; null for none, undefined until loaded
//   job       its job, as job-state.js reduces it; null for none
//   others    how many other sessions have a question for the user
//   problem   why the last request failed; "" if it did not
//   trouble   why the session could not be read; "" if it could
//   isBusy    whether a request is in flight

import { pluralize } from "../format.js";
import { emptyJob, isLive, withPage } from "./job-state.js";
import { Revisions } from "./revisions.js";

const PAGE_SIZE = 500; // events in one answer
const LONG_POLL_SECONDS = 10; // s for which the server holds a request without events
const RECONNECT_DELAY = 1_000; // ms before a retry after a lost connection

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const isUnderWay = ({ status }) => status === "queued" || status === "running";

export class ReviewSession {
  /** `changed(state)` is called after each change. */
  constructor({ api, review, announce, changed }) {
    Object.assign(this, { api, review, announce, changed });
    this.state = { session: undefined, job: null, others: 0, problem: "", trouble: "", isBusy: false };
    this.revisions = new Revisions({ api, review, announce });
    this.pollInterval = 2_000; // ms between polls while nothing runs
    this.polling = Promise.resolve();
    this.due = null; // the poll that is queued
    this.wake = () => {}; // ends the pause before the next read of events
    this.following = null; // aborts the reading of the job's events
  }

  async start() {
    document.addEventListener("visibilitychange", () => document.hidden || this.poll());
    this.api.limits().then((limits) => (this.pollInterval = limits.poll_interval_ms), () => {}); // else the default
    for (;;) {
      if (!document.hidden || this.state.session === undefined) await this.poll();
      await sleep(this.pollInterval);
    }
  }

  /** Poll the sessions. Calls during a poll are merged into one more poll. */
  poll() {
    this.due ??= this.polling.then(() => {
      this.due = null;
      this.polling = this.#poll().catch((error) => this.#set({ trouble: error.code === "connection" ? "" : error.message }));
      return this.polling;
    });
    return this.due;
  }

  /** Something changed in the project: poll now. */
  hint() {
    this.wake();
    this.poll();
  }

  // -- what the user does ---------------------------------------------------------------------------

  /** Start a job in an agent mode, or the configured one for ""; resolves to whether the server accepted it. */
  send(instruction, mode, rows) {
    return this.#ask(async () => {
      const session = this.state.session?.id ?? (await this.api.createSession()).session_id;
      await this.api.run({ session_id: session, instruction, context_rows: await rows(), agent_mode: mode || null });
    });
  }

  /** Let an agent propose a hunk anew; resolves to an error message, or "". */
  async revise(path, hunk, instruction, mode) {
    try {
      const session = this.state.session?.id ?? (await this.api.createSession()).session_id;
      const name = { file_path: path, hunk_id: hunk.seen_id };
      const { job_id, status } = await this.api.run({ session_id: session, instruction, agent_mode: mode || null, revise: name });
      this.revisions.started({ job_id, ...name, status, instruction });
      return "";
    } catch (error) {
      return error.code === "stale_revision" ? "The hunk has just changed. Close this, and look at it again." : error.message;
    } finally {
      this.hint();
    }
  }

  /** Stop a job that proposes a hunk anew. */
  cancelRevision = ({ job_id: id }) => this.#ask(() => this.api.cancel(id));

  newSession = () => this.#ask(() => this.api.createSession());
  cancel = () => this.#ask(() => this.api.cancel(this.state.job.id));
  rerun = () => this.#ask(() => this.api.rerun(this.state.job.id));
  end = () => this.#ask(() => this.api.apply(this.state.session.id, this.state.job.id, []));

  /** Submit a job's instruction again, as a new job of the current session. */
  again = ({ id }) => this.#ask(async () => {
    const { session_id: own, instruction, context_rows, agent_mode, revise } = await this.api.job(id);
    await this.api.run({ session_id: this.state.session?.id ?? own, instruction, context_rows, agent_mode, revise });
  });

  /** Resolves to an error message, or "". */
  answer(question, text) {
    return this.api.clarify(this.state.job.id, question.question_id, text).finally(() => this.hint());
  }

  // -- reading --------------------------------------------------------------------------------------

  async #ask(what) {
    this.#set({ isBusy: true, problem: "" });
    try {
      await what();
      return true;
    } catch (error) {
      this.#set({ problem: error.message });
      return false;
    } finally {
      this.wake();
      await this.poll();
      this.#set({ isBusy: false });
    }
  }

  async #poll() {
    const sessions = await this.api.sessions();
    this.revisions.take(sessions.flatMap((each) => each.revising));
    const asking = sessions.filter((each) => each.asking_job_id);
    const latest = asking.at(-1) ?? sessions.find((each) => each.status === "active");
    const { session, job } = this.state;
    const others = asking.filter((each) => each.id !== latest.id).length;
    if (others !== this.state.others) this.#set({ others });
    const isKnown = session?.id === latest?.id && session?.updated_at === latest?.updated_at; // one of its earlier jobs may end
    if (isKnown && session !== undefined && this.seen === job?.status) return;
    this.seen = job?.status;
    const now = latest ? await this.api.session(latest.id) : null;
    const id = latest?.asking_job_id ?? (await this.#current(now));
    this.#set({ session: now, trouble: "", ...(id === null && { job: null }) });
    if (id === null) this.following?.abort();
    else if (id !== this.state.job?.id) this.#follow(id);
  }

  /** The current job: the last one, or while that is queued the running one before it. */
  async #current(session) {
    const ids = [...new Set((session?.chat ?? []).map((entry) => entry.job_id))];
    let current = ids.at(-1) ?? null;
    for (const id of ids.reverse()) {
      const { status } = await this.api.events(id, 0, { limit: 1 });
      if (!isLive(status)) break;
      current = id;
      if (status !== "queued") break;
    }
    return current;
  }

  /** Read a job's events until it ends, or another job is followed. */
  async #follow(id) {
    this.following?.abort();
    const following = new AbortController();
    this.following = following;
    for (let job = emptyJob(id); !following.signal.aborted; ) {
      try {
        const wait = job.isRead && isUnderWay(job) && !document.hidden ? LONG_POLL_SECONDS : 0;
        const page = await this.api.events(id, job.cursor, { wait, limit: PAGE_SIZE, signal: following.signal });
        if (following.signal.aborted) return;
        const before = job;
        job = withPage(job, page);
        if (job.status === "failed" && !job.error) job = { ...job, error: (await this.api.job(id)).error ?? "" };
        this.#set({ job });
        this.#tell(before, job);
        if (page.events.length > 0) continue;
        if (job.status === "completed" || job.status === "failed") return;
        if (!isUnderWay(job) || document.hidden) await this.#rest(this.pollInterval);
      } catch (error) {
        if (following.signal.aborted) return;
        if (error.code !== "connection") return this.#set({ trouble: error.message });
        await this.#rest(RECONNECT_DELAY);
      }
    }
  }

  #rest(ms) {
    return new Promise((resolve) => {
      setTimeout(resolve, ms);
      this.wake = resolve;
    });
  }

  /** Announce changes to screen readers, and poll after a change of status. */
  #tell(before, job) {
    if (job.question && job.question.question_id !== before.question?.question_id) {
      this.announce(`The agent asks: ${job.question.question}`);
    }
    if (job.status === before.status) return;
    this.poll();
    if (!before.isKnown) return; // it may have been in this state before this page was loaded
    if (job.status === "awaiting_review" && job.proposed) {
      const { hunks, files } = job.proposed;
      this.announce(`Job finished: ${pluralize(hunks, "hunk")} in ${pluralize(files, "file")} to review.`);
      this.review.touch();
    } else if (job.status === "failed") this.announce(`Job failed: ${job.error}`);
    else if (job.status === "completed") this.announce(job.proposed ? "Review ended." : "Job finished: no changes proposed.");
  }

  #set(fields) {
    this.state = { ...this.state, ...fields };
    this.changed(this.state);
  }
}
