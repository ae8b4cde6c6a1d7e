// The agent's work as the server has it: the session that is shown, and the job in it that matters now.
//
//   session   the SessionView whose agent asks, the oldest first, else the latest active one; null where there is none,
//             undefined until that is known
//   job       its job, as job.js folds it; null for none
//   others    how many other sessions have a question for the user
//   problem   why the last thing that was asked for could not be done; "" if it could
//   trouble   why the session could not be read just now; "" if it could
//   isBusy    whether something was asked for, and the answer is not there yet

import { pluralize } from "../format.js";
import { emptyJob, isLive, withPage } from "./job-card.js";

const PAGE = 500; // events of one answer
const WAIT = 10; // s that an answer without events is put off
const LOST = 1_000; // ms until a lost connection is tried again

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const isUnderWay = ({ status }) => status === "queued" || status === "running";

export class ReviewSession {
  /** `changed(state)` is called after each change. */
  constructor({ api, review, announce, changed }) {
    Object.assign(this, { api, review, announce, changed });
    this.state = { session: undefined, job: null, others: 0, problem: "", trouble: "", isBusy: false };
    this.pause = 2_000; // ms between looks while nothing runs
    this.looking = Promise.resolve();
    this.due = null; // the look that has not begun yet
    this.wake = () => {}; // ends the pause in the reading of events
    this.following = null; // ends the reading of the job's events
  }

  async start() {
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
    this.api.limits().then((limits) => (this.pause = limits.poll_interval_ms), () => {}); // else as it is
    for (;;) {
      if (!document.hidden || this.state.session === undefined) await this.look();
      await sleep(this.pause);
    }
  }

  /** See whether there is another session, or more in this one; what is asked for while that goes on is one more look. */
  look() {
    this.due ??= this.looking.then(() => {
      this.due = null;
      this.looking = this.#look().catch((error) => this.#set({ trouble: error.code === "connection" ? "" : error.message }));
      return this.looking;
    });
    return this.due;
  }

  /** Something changed in the project: the job's journal may tell of it. */
  hint() {
    this.wake();
    this.look();
  }

  // -- what the user does ---------------------------------------------------------------------------

  /** Start a job; true once the server has it. */
  send(instruction, rows) {
    return this.#ask(async () => {
      const session = this.state.session?.id ?? (await this.api.createSession()).session_id;
      await this.api.run({ session_id: session, instruction, context_rows: await rows() });
    });
  }

  newSession = () => this.#ask(() => this.api.createSession());
  cancel = () => this.#ask(() => this.api.cancel(this.state.job.id));
  rerun = () => this.#ask(() => this.api.rerun(this.state.job.id));
  end = () => this.#ask(() => this.api.apply(this.state.session.id, this.state.job.id, []));

  /** What a job was given once more, in the session that is shown: a new job. */
  again = ({ id }) => this.#ask(async () => {
    const { session_id: own, instruction, context_rows } = await this.api.job(id);
    await this.api.run({ session_id: this.state.session?.id ?? own, instruction, context_rows });
  });

  /** Resolves to why the answer could not be given, "" if it was. */
  async answer(question, text) {
    try {
      await this.api.clarify(this.state.job.id, question.question_id, text);
      return "";
    } catch (error) {
      return error.code === "question_closed" ? "It was answered elsewhere." : error.message;
    } finally {
      this.hint();
    }
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
      await this.look();
      this.#set({ isBusy: false });
    }
  }

  async #look() {
    const sessions = await this.api.sessions();
    const asking = sessions.filter((each) => each.asking_job_id);
    const latest = asking.at(-1) ?? sessions.find((each) => each.status === "active");
    const { session, job } = this.state;
    const others = asking.filter((each) => each.id !== latest.id).length;
    if (others !== this.state.others) this.#set({ others });
    const isKnown = session?.id === latest?.id && session?.updated_at === latest?.updated_at; // an earlier job of it may end
    if (isKnown && session !== undefined && this.seen === job?.status) return;
    this.seen = job?.status;
    const now = latest ? await this.api.session(latest.id) : null;
    const id = latest?.asking_job_id ?? (await this.#current(now));
    this.#set({ session: now, trouble: "", ...(id === null && { job: null }) });
    if (id === null) this.following?.abort();
    else if (id !== this.state.job?.id) this.#follow(id);
  }

  /** The job that matters: the last one, or, while that waits for its turn, the one before it that is under way. */
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

  /** Read a job's events until it has ended, or another job is followed. */
  async #follow(id) {
    this.following?.abort();
    const following = new AbortController();
    this.following = following;
    for (let job = emptyJob(id); !following.signal.aborted; ) {
      try {
        const wait = job.isRead && isUnderWay(job) && !document.hidden ? WAIT : 0;
        const page = await this.api.events(id, job.cursor, { wait, limit: PAGE, signal: following.signal });
        if (following.signal.aborted) return;
        const before = job;
        job = withPage(job, page);
        if (job.status === "failed" && !job.error) job = { ...job, error: (await this.api.job(id)).error ?? "" };
        this.#set({ job });
        this.#tell(before, job);
        if (page.events.length > 0) continue;
        if (job.status === "completed" || job.status === "failed") return;
        if (!isUnderWay(job) || document.hidden) await this.#rest(this.pause);
      } catch (error) {
        if (following.signal.aborted) return;
        if (error.code !== "connection") return this.#set({ trouble: error.message });
        await this.#rest(LOST);
      }
    }
  }

  #rest(ms) {
    return new Promise((resolve) => {
      setTimeout(resolve, ms);
      this.wake = resolve;
    });
  }

  /** Say what a screen reader's user would not see, and look at what is another thing now. */
  #tell(before, job) {
    if (job.question && job.question.question_id !== before.question?.question_id) {
      this.announce(`The agent asks: ${job.question.question}`);
    }
    if (job.status === before.status) return;
    this.look();
    if (!before.isRead) return; // it was so before this page looked
    if (job.status === "awaiting_review" && job.proposed) {
      const { hunks, files } = job.proposed;
      this.announce(`Job finished: ${pluralize(hunks, "hunk")} in ${pluralize(files, "file")} to review.`);
      this.review.touch();
    } else if (job.status === "failed") this.announce(`Job failed: ${job.error}`);
    else if (job.status === "completed") this.announce(job.proposed ? "The review has ended." : "Job finished: it proposed no change.");
  }

  #set(fields) {
    this.state = { ...this.state, ...fields };
    this.changed(this.state);
  }
}
