// The requests of docs/review-api.md, one method each.

import { HttpApi } from "../http-api.js";
import { inOrder } from "./path-order.js";

const QUICK = { isQuick: true }; // a request that a healthy server answers quickly

/** The first id of a hunk. A hunk gets a new id whenever its text changes. */
export const rootOf = (id) => id.split(".").at(-1);

/** A file whose hunks are identified by their first ids, which are stable; `seen_id` identifies the current text. */
const known = (view) => ({ ...view, hunks: view.hunks.map((hunk) => ({ ...hunk, hunk_id: rootOf(hunk.hunk_id), seen_id: hunk.hunk_id })) });

/** An answer whose files and conflicts are in natural order; those of the server are sorted by their bytes, as git does. */
const sorted = (answer) => ({ ...answer, files: inOrder(answer.files), ...(answer.conflicts && { conflicts: inOrder(answer.conflicts) }) });

export class ReviewApi extends HttpApi {
  /** `confirmOverwrite(words)` asks the user before a save that replaces lines which others changed on disk. */
  constructor({ confirmOverwrite = async () => false, ...options } = {}) {
    super("/api/agent/", options);
    this.confirmOverwrite = confirmOverwrite;
  }

  limits = () => this.get("limits");
  sessions = () => this.get("sessions").then(({ sessions }) => sessions);
  session = (id) => this.get(`sessions/${encodeURIComponent(id)}`);
  createSession = () => this.post("sessions", {});
  archive = (id) => this.post(`sessions/${encodeURIComponent(id)}/archive`, {});

  /** Not repeated automatically, as that would start a second job. */
  run = (body) => this.post("run", body, { again: false });
  /** {jobs, more}: those of all sessions, the latest first. */
  jobs = (limit) => this.get("jobs", { limit });
  job = (id) => this.get(`jobs/${encodeURIComponent(id)}`);
  events = (id, cursor, { wait = 0, limit = 200, signal } = {}) =>
    this.get(`jobs/${encodeURIComponent(id)}/events`, { cursor, limit, wait }, { signal });
  /** Answer a job's question, or skip it by null; resolves to an error message, or "". */
  clarify = (id, question, answer) =>
    this.post(`jobs/${encodeURIComponent(id)}/clarify`, { question_id: question, answer }).then(
      () => "",
      (error) => (error.code === "question_closed" ? "Already answered elsewhere." : error.message),
    );
  rerun = (id) => this.post(`jobs/${encodeURIComponent(id)}/rerun`, {}, { again: false });
  cancel = (id) => this.post(`jobs/${encodeURIComponent(id)}/cancel`, {});
  apply = (session, job, hunks) => this.post("apply", { session_id: session, job_id: job, accepted_hunk_ids: hunks });

  /** {files, runs}: the files with pending changes, and the runs that made them. */
  pending = () => this.get("pending").then(sorted);
  /** A file at its current or a given revision. */
  file = (path, rev = null) => this.get("file", { file_path: path, ...(rev !== null && { rev }) }, QUICK).then(known);
  /** Stamps that change with files, and with the names in folders, on disk. */
  stamps = (paths) => this.post("stamps", { paths }, { again: false }).then(({ stamps }) => stamps);
  /** A file's bytes as an ArrayBuffer; `of` is "buffer" or "base" (the file on disk). */
  content = (path, of) => this.get("content", { file_path: path, of }, { as: "arrayBuffer" });
  changeLog = (path) => this.get("change_log", { file_path: path });
  // Changes name the revision they are based on. A repeated one is refused, as the revision has changed by then.
  edit = (path, rev, splices) => this.post("edit", { file_path: path, rev, splices }, QUICK).then(known);
  /** `hunks` are `seen_id`s. */
  decide = (path, rev, action, { hunks, mine = null }) =>
    this.post("decide", { file_path: path, rev, action, hunk_ids: hunks, ...(mine && { mine }) }, QUICK).then(known);
  /** Decide all pending hunks of the given files: "accept" or "reject"; or "reopen" those that were decided so. */
  decideAll = (action, files) =>
    this.post("decide_all", { action, files: files.map(({ file_path, hunk_ids }) => ({ file_path, hunk_ids })) }).then(({ files: done }) => done);
  undo = (path, rev) => this.post("undo", { file_path: path, rev }, QUICK).then(known);
  redo = (path, rev) => this.post("redo", { file_path: path, rev }, QUICK).then(known);
  /** `files`: [{path, rev}]. Asks before it overwrites a change on disk, and fails if the user declines. */
  async save(files) {
    const send = (more) => this.post("save", { files: files.map(({ path, rev }) => ({ file_path: path, rev, ...more })) });
    try {
      return await send({});
    } catch (error) {
      if (error.code !== "overwrites_disk") throw error;
      if (!(await this.confirmOverwrite(error.message))) throw new Error("The changes on disk are kept.");
      return send({ overwrite: true }); // of these revisions, which the question was about
    }
  }

  tree = (folder) => this.get("tree", { folder });
  find = (query) => this.get("find", { query });
  /** {checkpoints, more}: the latest first, those before the checkpoint `before`, or of one session. */
  checkpoints = ({ limit = 100, before = "", session = "" } = {}) =>
    this.get("checkpoints", { limit, ...(before && { before }), ...(session && { session_id: session }) })
      .then((page) => ({ ...page, checkpoints: page.checkpoints.map(sorted) }));
  checkpoint = (id) => this.get(`checkpoints/${encodeURIComponent(id)}`).then(sorted);
  diff3 = (id, path) => this.get(`checkpoints/${encodeURIComponent(id)}/diff3`, { file_path: path });
  rollback = (id, { mode, hunks = [], dryRun = false }) =>
    this.post(`checkpoints/${encodeURIComponent(id)}/rollback`, { mode, hunk_ids: hunks, dry_run: dryRun }, { again: dryRun })
      .then((done) => ({ ...sorted(done), buffers: done.buffers.map(known) }));

  /** What undoing or redoing a run in the files would change, or with its `files` doing it: {files, conflicts}. */
  undoRun = (id, request) => this.#rewind(`checkpoints/${encodeURIComponent(id)}/undo`, request);
  redoRun = (id, request) => this.#rewind(`checkpoints/${encodeURIComponent(id)}/redo`, request);
  /** The same for all runs of a session since a moment. */
  rewind = (session, since, request) => this.#rewind("rewind", request, { session_id: session, since });

  /** How far an undo, redo or rewind has come, by the `operation` that its request named: {done, total}. */
  operation = (name) => this.get(`operations/${encodeURIComponent(name)}`, {}, { again: false });
  /** Stop it between two files; its request fails with the code "save_stopped". */
  stopOperation = (name) => this.post(`operations/${encodeURIComponent(name)}/stop`, {}, { again: false });

  #rewind(path, { dryRun = false, files = [], operation = "" }, more = {}) {
    const seen = files.map(({ file_path, rev }) => ({ file_path, rev }));
    return this.post(path, { ...more, dry_run: dryRun, files: seen, operation }, { again: dryRun }).then(sorted);
  }
}
