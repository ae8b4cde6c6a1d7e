// The requests of docs/review-api.md, one method each.

const TRIES = 5;
const FIRST_WAIT = 300; // ms before a request is made again whose answer was lost
const SLOW = 4_000; // ms without an answer, after which there is none at the moment
const GIVEN_UP = 20_000; // ms after which it is asked again
const AGAIN = 1_000; // ms between looks whether there is a connection
const QUICK = { isQuick: true }; // a request of which a server that works makes no work

/** The id under which a hunk came into being. It has another one once it reads otherwise. */
export const rootOf = (id) => id.split(".").at(-1);

/** A file whose hunks go by the ids under which they came into being, so that they are known again; `seen_id` stands for what they change. */
const known = (view) => ({ ...view, hunks: view.hunks.map((hunk) => ({ ...hunk, hunk_id: rootOf(hunk.hunk_id), seen_id: hunk.hunk_id })) });

/**
 * A request that was not done: `code` is the server's, or "connection"; `status` is 0 then. `wasLost`: it was made before, and its
 * answer was lost, so that it may have been done then.
 */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export class ReviewApi {
  /** `onLink(isUp)` is told when the server does not answer any more, and when it does again. */
  constructor({ onLink = () => {} } = {}) {
    this.onLink = onLink;
    this.isUp = true;
    this.sleepers = new Set();
  }

  /** Ask at once what waits to be asked again: there is reason to believe that the server answers. */
  wake() {
    for (const wake of this.sleepers) wake();
  }

  /** Resolves when it is time to try again what could not reach the server. */
  untilUp = () => this.#sleep(AGAIN);

  limits = () => this.#get("limits");
  sessions = () => this.#get("sessions").then(({ sessions }) => sessions);
  session = (id) => this.#get(`sessions/${encodeURIComponent(id)}`);
  createSession = () => this.#post("sessions", {});
  archive = (id) => this.#post(`sessions/${encodeURIComponent(id)}/archive`, {});

  /** Not asked again by itself when its answer is lost: it would be a second job. */
  run = (body) => this.#post("run", body, { again: false });
  /** {jobs, more}: those of all sessions, the latest first. */
  jobs = (limit) => this.#get("jobs", { limit });
  job = (id) => this.#get(`jobs/${encodeURIComponent(id)}`);
  events = (id, cursor, { wait = 0, limit = 200, signal } = {}) =>
    this.#get(`jobs/${encodeURIComponent(id)}/events`, { cursor, limit, wait }, { signal });
  clarify = (id, question, answer) => this.#post(`jobs/${encodeURIComponent(id)}/clarify`, { question_id: question, answer });
  rerun = (id) => this.#post(`jobs/${encodeURIComponent(id)}/rerun`, {}, { again: false });
  cancel = (id) => this.#post(`jobs/${encodeURIComponent(id)}/cancel`, {});
  apply = (session, job, hunks) => this.#post("apply", { session_id: session, job_id: job, accepted_hunk_ids: hunks });

  /** {files, runs}: the files that wait, and the runs that their hunks are of. */
  pending = () => this.#get("pending");
  /** A file as it is, or as it was at a revision. */
  file = (path, rev = null) => this.#get("file", { file_path: path, ...(rev !== null && { rev }) }, QUICK).then(known);
  /** What says whether a file on the disk is still the one that was read. */
  stamp = (path) => this.#get("stamp", { file_path: path }, { again: false }).then(({ stamp }) => stamp);
  /** A file's bytes as an ArrayBuffer; `of` is "buffer" or "base", which is the disk. */
  content = (path, of) => this.#get("content", { file_path: path, of }, { as: "arrayBuffer" });
  changeLog = (path) => this.#get("change_log", { file_path: path });
  // What is made for a revision is done once: a second time the revision is another one, and it is refused.
  edit = (path, rev, splices) => this.#post("edit", { file_path: path, rev, splices }, QUICK).then(known);
  /** `hunks` are the `seen_id` of each. */
  decide = (path, rev, action, { hunks, mine = null }) =>
    this.#post("decide", { file_path: path, rev, action, hunk_ids: hunks, ...(mine && { mine }) }, QUICK).then(known);
  /** All that is undecided in files of the list of what waits: "accept" or "reject". */
  decideAll = (action, files) =>
    this.#post("decide_all", { action, files: files.map(({ file_path, hunk_ids }) => ({ file_path, hunk_ids })) }).then(({ files: done }) => done);
  undo = (path, rev) => this.#post("undo", { file_path: path, rev }, QUICK).then(known);
  redo = (path, rev) => this.#post("redo", { file_path: path, rev }, QUICK).then(known);
  /** `files`: [{path, rev}]. */
  save = (files) => this.#post("save", { files: files.map(({ path, rev }) => ({ file_path: path, rev })) });

  tree = (folder) => this.#get("tree", { folder });
  find = (query) => this.#get("find", { query });
  /** {checkpoints, more}: the latest first, those before the checkpoint `before`, or of one session. */
  checkpoints = ({ limit = 100, before = "", session = "" } = {}) =>
    this.#get("checkpoints", { limit, ...(before && { before }), ...(session && { session_id: session }) });
  checkpoint = (id) => this.#get(`checkpoints/${encodeURIComponent(id)}`);
  diff3 = (id, path) => this.#get(`checkpoints/${encodeURIComponent(id)}/diff3`, { file_path: path });
  rollback = (id, { mode, hunks = [], dryRun = false }) =>
    this.#post(`checkpoints/${encodeURIComponent(id)}/rollback`, { mode, hunk_ids: hunks, dry_run: dryRun }, { again: dryRun })
      .then((done) => ({ ...done, buffers: done.buffers.map(known) }));

  #get(path, query = {}, how = {}) {
    const words = new URLSearchParams(query).toString();
    return this.#ask(`/api/agent/${path}${words && `?${words}`}`, { method: "GET" }, how);
  }

  #post(path, body, how = {}) {
    const init = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    return this.#ask(`/api/agent/${path}`, init, how);
  }

  async #ask(url, init, { again = true, isQuick = false, signal, as = "json" } = {}) {
    const tries = again ? TRIES : 1;
    for (let left = tries, wait = FIRST_WAIT; ; left -= 1, wait *= 2) {
      const slow = isQuick ? setTimeout(() => this.#link(false), SLOW) : null;
      try {
        const answer = await fetch(url, { ...init, signal: isQuick ? AbortSignal.timeout(GIVEN_UP) : signal });
        const body = await answer[answer.ok ? as : "json"]().catch((error) => {
          if (answer.ok) throw error; // it was cut off
          return {};
        });
        this.#link(true);
        if (answer.ok) return body;
        const words = body.error?.message ?? `The server answered ${answer.status}.`;
        throw Object.assign(new ApiError(answer.status, body.error?.code ?? "unknown", words), { wasLost: left < tries });
      } catch (error) {
        if (error instanceof ApiError || signal?.aborted) throw error;
        this.#link(false);
        if (left <= 1) throw new ApiError(0, "connection", "There is no connection to Newel at the moment.");
        await this.#sleep(wait);
      } finally {
        clearTimeout(slow);
      }
    }
  }

  /** Some time, or less if the server is known to answer again. */
  #sleep(time) {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.sleepers.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, time);
      this.sleepers.add(wake);
    });
  }

  #link(isUp) {
    if (isUp === this.isUp) return;
    this.isUp = isUp;
    if (isUp) this.wake();
    this.onLink(isUp);
  }
}
