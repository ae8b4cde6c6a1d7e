// A job of a fleet: its contract, its conversation as it happens on a worker, and its changes, which are reviewed here.

import { confirm } from "../dialog.js";
import { contractHead } from "../contract.js";
import { Conversation } from "../conversation.js";
import { fill, h, setText } from "../dom.js";
import { formatUsage, plain, pluralize, reveal, truncate } from "../format.js";
import { ApiError } from "../http-api.js";
import { ContractView } from "../message.js";
import { StatusLine } from "../status-line.js";
import { badge } from "../tabs.js";
import { addEvent, addSoFar, emptyTranscript } from "../transcript.js";
import { isLive, NO_USAGE, titleOf, withUsage } from "./fleet-state.js";

const RETRY_DELAY = 2_000; // ms after a failure
const RENDER_DELAY = 40; // ms, for what arrives together
const MAX_TITLE = 40; // characters of the tab's title

export class FleetJobView {
  /**
   * `api` is a FleetApi, `job` the job's id; `changesOf(session)` are the changes of its runs that are proposed here, `runActions` what can be done
   * with them, `reviewRuns(runs)` goes to the first of their hunks, `announce(words)` tells a screen reader.
   */
  constructor({ api, job, review, changesOf, runActions, reviewRuns, openFile, announce }) {
    Object.assign(this, { api, id: job, review, changesOf, reviewRuns, announce });
    this.transcript = { ...emptyTranscript(), run: job };
    this.usage = NO_USAGE;
    this.snapshots = 0;
    this.title = h("h2", { tabindex: "-1" }, "Job");
    this.contract = h("div", { class: "contract" });
    this.foot = new StatusLine({});
    this.conversation = new Conversation({
      tab: `fleet-job/${job}`, foot: this.foot.el, userView: () => new ContractView(() => this.job?.contract.text),
      actions: { ...runActions, openFile, loadEarlier: async () => {}, loadSubagent: async () => { throw new Error("What this subagent did stayed with the worker."); } },
    });
    this.cancel = h("button", { type: "button", hidden: true, onclick: () => this.#cancel() }, "Cancel…");
    this.propose = h("button", { type: "button", class: "primary", hidden: true, onclick: () => this.#propose() }, "Review changes");
    this.reason = h("span", { class: "reason" });
    this.meter = h("span", { class: "meter" });
    this.state = h("span", { class: "state", role: "status" });
    this.place = h("div", { class: "log-file" });
    this.note = h("p", { class: "dim note", role: "status" }, "Loading…"); // about the journal
    this.said = h("p", { class: "note", role: "status", hidden: true }); // about what a button does
    this.el = h("section", { class: "panel agent", "aria-label": "Job of a fleet" },
      h("div", { class: "panel-head" }, this.title), this.contract, this.note, this.said, this.conversation.el,
      h("div", { class: "agent-bar" }, this.cancel, this.propose, this.reason, this.meter, this.state), this.place);
  }

  load() {
    this.stop = this.review.subscribe(() => this.#show());
  }

  /** The conversation whose runs its changes belong to; undefined until it is known. */
  get session() {
    return this.job?.session;
  }

  /** The title of its tab, once it is loaded. */
  get name() {
    return this.job && truncate(titleOf(this.job), MAX_TITLE);
  }

  /** Call a function when its name is loaded. */
  onState(reader) {
    this.reader = reader;
  }

  shown() {
    this.conversation.shown();
    this.#follow();
  }

  hidden() {
    this.conversation.hidden();
    clearTimeout(this.retry);
    this.stream?.abort();
    this.stream = null;
  }

  destroy() {
    this.hidden();
    this.stop?.();
  }

  focus() {
    (this.propose.hidden ? this.title : this.propose).focus();
  }

  /** Read the journal from the last event that is known, and what is added to it; again after a failure. */
  async #follow() {
    const stream = new AbortController();
    this.stream = stream;
    let isOver = false;
    const onEvent = (name, data, seq) => {
      if (name === "end") isOver = true;
      else if (name === "error") this.#note(data.message);
      else this.#apply(name, data, seq);
    };
    // A stream that is cut says nothing: the page itself says that the server cannot be reached.
    const problem = await this.api.events(this.id, this.transcript.seq, onEvent, stream.signal).catch((error) => error);
    if (stream !== this.stream || isOver) return;
    if (problem instanceof ApiError) this.#note(problem.message);
    this.retry = setTimeout(() => this.#follow(), RETRY_DELAY);
  }

  #apply(name, data, seq) {
    if (name === "job") this.job = data;
    else if (name === "event") this.#add(data, seq);
    else this.transcript = addSoFar({ ...this.transcript, ready: true }, data);
    this.renderTimer ??= setTimeout(() => this.#render(), RENDER_DELAY);
  }

  #add(event, seq) {
    if (seq <= this.transcript.seq) return;
    this.transcript = addEvent(this.transcript, this.id, seq, event);
    this.usage = withUsage(this.usage, event);
    if (event.type === "folder_snapshot") this.snapshots += 1;
  }

  /** Say what keeps the events from coming; "" for nothing. */
  #note(words) {
    this.note.hidden = !words;
    setText(this.note, plain(words));
  }

  #render() {
    this.renderTimer = undefined;
    if (this.transcript.ready) this.#note("");
    this.#show();
    this.reader?.();
  }

  #say(words) {
    this.said.hidden = false;
    setText(this.said, plain(words));
  }

  #show() {
    const { job, transcript } = this;
    if (!job) return;
    const changes = this.changesOf(job.session);
    const live = isLive(job.status);
    setText(this.title, titleOf(job));
    if (!this.contract.firstChild) fill(this.contract, ...contractHead(job.contract));
    this.foot.update({ tab: job, transcript, stopping: undefined });
    this.cancel.hidden = !live;
    this.propose.hidden = live || this.snapshots < 2 || changes.length > 0;
    setText(this.reason, reveal(job.reason));
    setText(this.meter, formatUsage(this.usage));
    fill(this.state, badge(job));
    setText(this.place, reveal(placeOf(job)));
    this.conversation.update({ transcript, pending: [], changes });
  }

  async #cancel() {
    const sure = await confirm({
      title: "Cancel this job?", words: "It ends at once. What it has changed so far can still be reviewed.", yes: "Cancel job",
    });
    if (!sure) return;
    await this.api.cancelJob(this.id).catch((error) => this.#say(error.message));
  }

  async #propose() {
    this.propose.disabled = true;
    try {
      const { run, files, notices } = await this.api.propose(this.id);
      if (notices.length > 0) this.#say(notices.join("\n"));
      this.announce(`Proposed the changes of ${pluralize(files, "file")}.`);
      if (files > 0) await this.reviewRuns([run]);
    } catch (error) {
      this.#say(error.message);
    } finally {
      this.propose.disabled = false;
    }
  }
}

/** Where a job runs or ran: "On rack1-12-ab, attempt 2 · needs gpu". */
function placeOf({ worker, attempts, labels }) {
  const attempt = attempts > 1 ? `, attempt ${attempts}` : "";
  return [worker && `On ${worker}${attempt}`, labels.length > 0 && `needs ${labels.join(", ")}`].filter(Boolean).join(" · ");
}
