// The card of the review job that matters now.

import { fill, h, icon, setAttr, setText } from "../dom.js";
import { elapsedTimer } from "../elapsed-timer.js";
import { formatDuration, plain, pluralize, revealPath } from "../format.js";
import { localStore } from "../local-storage.js";
import { describeStatus, isLive } from "./job-state.js";

export class JobCard {
  /** `actions`: cancel(), rerun(), again(), end(). */
  constructor(actions) {
    this.state = h("strong", { class: "job-state", tabindex: "-1" });
    this.time = h("span", { class: "aside" });
    this.words = h("p", { class: "words", hidden: true });
    const button = (words, act, props = {}) => h("button", { type: "button", hidden: true, onclick: act, ...props }, words);
    this.buttons = {
      cancel: button("Cancel", actions.cancel, { class: "stop" }),
      rerun: button("Re-run", actions.rerun, { class: "primary" }),
      again: button("Run again", actions.again),
      end: button("End review", actions.end),
    };
    this.list = h("ol", { class: "job-steps", "aria-label": "Job steps", tabindex: "0" });
    this.count = h("summary", {});
    this.details = h("details", { open: localStore.get("review-steps") ?? false, ontoggle: () => localStore.set("review-steps", this.details.open) },
      this.count, this.list);
    this.el = h("section", { class: "job", "aria-label": "Job", hidden: true },
      h("div", { class: "job-head" }, this.state, this.time),
      this.words,
      h("div", { class: "row" }, ...Object.values(this.buttons)),
      this.details);
    this.rows = [];
  }

  /** `files` are the project's PendingFiles, null until they are loaded. */
  update({ job, files, isUp, isBusy }) {
    this.el.hidden = job === null;
    if (job === null) return;
    const own = (files ?? []).filter((file) => file.run_ids.includes(job.id));
    const changed = own.filter((file) => file.conflicts > 0).map((file) => file.file_path);
    const inReview = job.status === "awaiting_review";
    const isOver = inReview && files !== null && own.length === 0;
    setAttr(this.el, "data-status", job.status);
    setText(this.state, describeStatus(job, own.length));
    this.#time(job);
    this.#words(job, inReview ? changed : []);
    this.buttons.cancel.hidden = !isLive(job.status);
    this.buttons.rerun.hidden = !(inReview && (changed.length > 0 || (job.conflict && !isOver)));
    this.buttons.again.hidden = job.status !== "failed";
    this.buttons.end.hidden = !isOver;
    for (const each of Object.values(this.buttons)) each.disabled = !isUp || isBusy;
    this.#steps(job);
  }

  focus() {
    this.state.focus();
  }

  #time(job) {
    const key = `${job.id} ${job.since} ${isLive(job.status) ? "" : job.until}`;
    if (key === this.timed) return;
    this.timed = key;
    if (!job.since) fill(this.time);
    else if (isLive(job.status)) fill(this.time, elapsedTimer(job.since));
    else fill(this.time, job.until && formatDuration(Math.max(0, Date.parse(job.until) - Date.parse(job.since))));
  }

  #words(job, changed) {
    const conflict = changed.length > 0
      ? `${changed.map(revealPath).join(", ")} changed since this was proposed. Re-run on the new version?`
      : job.status === "awaiting_review" && job.conflict;
    const words = plain(job.status === "failed" ? job.error : conflict || (job.status === "awaiting_review" && job.incomplete) || "");
    this.words.hidden = words === "";
    setAttr(this.words, "data-kind", job.status === "failed" ? "bad" : "warn");
    if (words !== this.said) fill(this.words, icon("warn"), h("span", {}, words));
    this.said = words;
  }

  /** Update changed steps only; steps are never removed from the middle. */
  #steps({ id, steps }) {
    this.details.hidden = steps.length === 0;
    if (steps === this.steps) return;
    const first = steps[0]?.id;
    if (id !== this.id || first !== this.first) {
      this.rows = [];
      this.list.replaceChildren();
    }
    Object.assign(this, { steps, id, first });
    setText(this.count, pluralize(steps.length, "step"));
    for (const [index, step] of steps.entries()) {
      if (this.rows[index]?.step === step) continue;
      const el = stepLine(step);
      if (this.rows[index]) this.rows[index].el.replaceWith(el);
      else this.list.append(el);
      this.rows[index] = { step, el };
    }
  }
}

const PHASES = { said: "", running: "running: ", done: "", failed: "failed: " };

const stepLine = ({ words, phase, aside }) =>
  h("li", { class: "step", "data-phase": phase },
    h("span", { class: "step-head" }, h("span", { class: "mark", "aria-hidden": "true" })),
    h("span", { class: "sr-only" }, PHASES[phase]),
    h("span", { class: "call-words", title: words }, words), h("span", { class: "aside" }, aside));
