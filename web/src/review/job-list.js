// The requests of all review sessions: instruction, time and outcome.

import { fill, h, icon, setText, showButton } from "../dom.js";
import { formatTime, pluralize, reveal } from "../format.js";
import { isLive } from "./job-state.js";
import { AutoRefresh } from "./auto-refresh.js";
import { requestId } from "./routes.js";

const PAGE = 50;
const MOST = 500; // the server lists no more

/** A job's outcome as [badge class, text]. `waits`: whether some of it needs a decision or a save. */
export function outcomeOf({ status, files }, waits) {
  if (status === "completed") return files > 0 ? ["completed", "Reviewed"] : ["", "No change"];
  return {
    queued: ["", "Queued"], running: ["running", "Running"], waiting_for_user: ["waiting", "Waiting for your answer"],
    awaiting_review: waits ? ["waiting", "To review"] : ["completed", "Decided"], failed: ["failed", "Failed"],
  }[status];
}

export class JobList extends AutoRefresh {
  constructor({ api, review, open }) {
    super();
    Object.assign(this, { api, review, open });
    this.limit = PAGE;
    this.note = h("p", { class: "dim note", role: "status" }, "Loading…");
    this.list = h("ol", { class: "timeline-list" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.#more() }, "Show earlier");
    this.el = h("section", { class: "panel timeline", "aria-label": "Requests" },
      h("div", { class: "panel-head" }, h("h2", { tabindex: "-1" }, "Requests")), this.note, this.list, this.more);
  }

  focus() {
    (this.list.querySelector("button") ?? this.el.querySelector("h2")).focus();
  }

  #more() {
    this.limit = Math.min(MOST, this.limit * 2);
    this.read();
  }

  async read() {
    const asked = (this.asked = (this.asked ?? 0) + 1);
    try {
      const found = await this.api.jobs(this.limit);
      if (asked !== this.asked) return;
      this.#show(found);
      this.readWhile(found.jobs.some((job) => isLive(job.status)));
    } catch (error) {
      this.note.hidden = false;
      setText(this.note, error.message);
    }
  }

  #show({ jobs, more }) {
    this.note.hidden = jobs.length > 0;
    setText(this.note, "No requests yet. Describe a change in the review panel.");
    showButton(this.more, more && this.limit < MOST, () => this.list.lastElementChild?.querySelector("button"));
    const key = JSON.stringify([jobs, [...this.#waiting]]);
    if (key === this.key) return;
    this.key = key;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    fill(this.list, ...jobs.map((job) => this.#row(job)));
    if (focused) (this.list.querySelector(`[data-id="${CSS.escape(focused)}"]`) ?? this.el.querySelector("h2")).focus();
  }

  /** The ids of runs with pending changes. */
  get #waiting() {
    return new Set(this.review.get().runs.map((run) => run.run_id));
  }

  #row(job) {
    const [kind, words] = outcomeOf(job, this.#waiting.has(job.id));
    const { id, created_at: created, instruction, files } = job;
    return h("li", {},
      h("button", { type: "button", class: "quiet timeline-head", "data-id": id, onclick: () => this.open(requestId(id)) },
        h("time", { datetime: created, title: new Date(created).toLocaleString() }, formatTime(Date.parse(created))),
        h("span", { class: "timeline-title" }, reveal(instruction)),
        h("span", { class: "dim" }, files > 0 && pluralize(files, "file")),
        h("span", { class: `badge ${kind}` }, job.status === "waiting_for_user" && icon("question"), words)));
  }
}
