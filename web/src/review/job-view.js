// A past request of a review: its instruction and context, the questions, the answer, and each proposed hunk with its decision,
// rejected ones included.

import { fill, h, icon, setText } from "../dom.js";
import { truncate, formatDuration, formatTime, plain, reveal, revealPath } from "../format.js";
import { ClarifyCard } from "./clarify-card.js";
import { formatContextRow } from "./prompt-context.js";
import { AutoRefresh } from "./auto-refresh.js";
import { formatPlace } from "./hunk-format.js";
import { isLive } from "./job-state.js";
import { pagedList } from "./paged-list.js";
import { parsePatch } from "./patch.js";
import { hunksView } from "./patch-view.js";
import { outcomeOf } from "./job-list.js";
import { describeWholeFile } from "./change-labels.js";

const MAX_EVENTS = 500; // events in one answer
const PAGE_SIZE = 100; // hunks of a file that are shown at first
const FIRST_LINES = 30; // lines of a hunk that are shown at first
const MAX_TITLE = 40; // characters of the tab's title
const STATES = {
  pending: ["waiting", "question", "Undecided"], accepted: ["completed", "check", "Accepted, unsaved"],
  applied: ["completed", "check", "Kept"], rejected: ["", "close", "Rejected"],
};

/** The questions of a job: [{question, answer}]; the answer is null if there is none yet, "" if it was skipped. */
export function dialogueOf(events) {
  const asked = events.filter(({ type }) => type === "clarification.requested").map(({ data }) => data);
  const answers = new Map(events.filter(({ type }) => type === "clarification.received").map(({ data }) => [data.question_id, data]));
  return asked.map(({ question_id: id, question }) => {
    const given = answers.get(id);
    return { question, answer: given ? (given.skipped ? "" : given.answer) : null };
  });
}

export class JobView extends AutoRefresh {
  /** `job` is the job's id; `again(job)` submits its instruction again and resolves to whether that succeeded. */
  constructor({ api, review, job, openFile, again }) {
    super();
    Object.assign(this, { api, review, id: job, openFile, again });
    this.title = h("h2", { tabindex: "-1" }, "Request");
    this.run = h("button", { type: "button", hidden: true, onclick: () => this.#again() }, icon("again"), "Run again");
    this.note = h("p", { class: "dim note", role: "status" }, "Loading…");
    this.body = h("div", { class: "request-body" });
    this.clarify = new ClarifyCard({ answer: (question, text) => this.#answer(question, text) });
    this.el = h("section", { class: "panel timeline request", "aria-label": "Request" },
      h("div", { class: "panel-head" }, this.title, this.run), this.note, this.clarify.el, this.body);
  }

  isAffected(state) {
    this.run.disabled = !state.isUp;
    this.clarify.update({ question: this.job?.question ?? null, isUp: state.isUp });
    return super.isAffected(state);
  }

  /** The title of its tab, once it is loaded. */
  get name() {
    return this.job && truncate(plain(this.job.instruction).trim(), MAX_TITLE);
  }

  /** Call a function when its name is loaded. */
  onState(reader) {
    this.reader = reader;
  }

  focus() {
    if (this.clarify.el.hidden) this.title.focus();
    else this.clarify.focus();
  }

  /** Resolves to an error message, or "". */
  #answer(question, text) {
    return this.api.clarify(this.id, question.question_id, text).finally(() => this.read());
  }

  async #again() {
    this.run.disabled = true;
    await this.again(this.job);
    this.run.disabled = false;
  }

  async read() {
    const asked = (this.asked = (this.asked ?? 0) + 1);
    try {
      const [job, { events }] = await Promise.all([this.api.job(this.id), this.api.events(this.id, 0, { limit: MAX_EVENTS })]);
      if (asked !== this.asked) return;
      const key = JSON.stringify([job, events.length]);
      this.note.hidden = true;
      this.#ask(job.question);
      if (key !== this.key) this.#show(job, dialogueOf(events));
      this.key = key;
      this.readWhile(isLive(job.status));
    } catch (error) {
      if (asked !== this.asked) return;
      this.note.hidden = false;
      setText(this.note, error.code === "no_such_job" ? "This request is no longer available; only the latest are kept." : error.message);
    }
  }

  #ask(question) {
    const wasIn = this.clarify.el.contains(document.activeElement);
    this.clarify.update({ question, isUp: this.review.get().isUp });
    if (wasIn && question === null) this.title.focus();
    else if (question !== null && document.activeElement === this.title && !this.job) this.clarify.focus(); // it has just been loaded
  }

  #show(job, dialogue) {
    this.job = job;
    this.reader();
    const files = job.diff_bundle?.files ?? [];
    const waits = files.some((file) => file.hunks.some(({ state }) => state === "pending" || state === "accepted"));
    const [kind, words] = outcomeOf({ status: job.status, files: files.length }, waits);
    this.run.hidden = isLive(job.status);
    const took = job.finished_at && job.started_at && formatDuration(Date.parse(job.finished_at) - Date.parse(job.started_at));
    fill(this.body,
      h("p", { class: "row" }, h("span", { class: `badge ${kind}` }, words),
        h("span", { class: "dim" }, [formatTime(Date.parse(job.created_at)), took && `took ${took}`].filter(Boolean).join(" · "))),
      part("Instruction", h("p", { class: "words" }, plain(job.instruction))),
      job.context_rows.length > 0 && part("Context", ...job.context_rows.map(contextRow)),
      dialogue.length > 0 && part("Questions", ...dialogue.map((each) => exchange(each, isLive(job.status)))),
      job.summary && part("Answer", h("p", { class: "words" }, plain(job.summary))),
      job.error && part("Error", h("p", { class: "words bad-text" }, plain(job.error))),
      files.length > 0 && part("Changes", ...files.map((file) => this.#file(file))));
  }

  #file({ file_path: path, hunks }) {
    const own = hunks.filter((hunk) => hunk.run_ids.includes(this.id)).sort((one, other) => one.start_line - other.start_line);
    return h("div", { class: "request-file" },
      h("p", { class: "row" }, h("button", { type: "button", class: "link mono", onclick: () => this.openFile(path) }, revealPath(path)),
        own.length === 0 && h("span", { class: "dim" }, "changed since then")),
      ...pagedList(h("div", { class: "request-hunks" }), own, { first: PAGE_SIZE, noun: "hunk", render: (hunk) => this.#hunk(path, hunk) }));
  }

  #hunk(path, hunk) {
    const [kind, sign, words] = STATES[hunk.state];
    const [patch] = parsePatch(hunk.patch);
    const isOpen = hunk.state === "pending" || hunk.state === "accepted";
    return h("div", { class: "request-hunk" },
      h("p", { class: "row" }, h("span", { class: `badge ${kind}` }, icon(sign), words),
        hunk.kind === "lines" && h("span", { class: "dim" }, formatPlace(hunk)),
        isOpen && h("button", { type: "button", class: "link", onclick: () => this.openFile(path, { hunk: hunk.hunk_id }) }, "Show in file")),
      patch ? hunksView(patch.hunks, { heads: false, first: FIRST_LINES, label: `Changes of ${revealPath(path)}, ${formatPlace(hunk)}` })
        : h("p", { class: "dim note" }, describeWholeFile(hunk)));
  }
}

const part = (title, ...children) => h("section", { class: "request-part" }, h("h3", {}, title), ...children);

const contextRow = (row) =>
  h("details", {}, h("summary", { class: "mono" }, formatContextRow(row)), h("pre", { class: "output", tabindex: "0", "aria-label": formatContextRow(row) }, reveal(row.content)));

const exchange = ({ question, answer }, isWaiting) =>
  h("div", {}, h("p", { class: "words" }, plain(question)),
    h("p", { class: "words dim" }, answer === null ? (isWaiting ? "Waiting for your answer." : "Not answered.") : answer === "" ? "Skipped." : `You: ${plain(answer)}`));
