// A job of the agent: what its events have come to, and the card that shows it.

import { elapsedTimer } from "../elapsed-timer.js";
import { fill, h, icon, setText, setAttr } from "../dom.js";
import { formatCall, truncate, formatDuration, plain, pluralize, reveal, revealPath } from "../format.js";
import { localStore } from "../local-storage.js";

const STEPS = 300; // steps that are kept: the latest
const WIDTH = 160; // characters of a step's line

export const isLive = (status) => status === "queued" || status === "running" || status === "waiting_for_user";

export const emptyJob = (id) => ({
  id,
  status: "queued",
  cursor: 0,
  isRead: false, // whether its events were read to their end once
  since: "",
  until: "",
  steps: [], // {id, words, phase: "said" | "running" | "done" | "failed", aside}
  question: null, // {question_id, question}
  proposed: null, // {hunks, files}
  incomplete: "", // why it ended early, and yet has proposed something
  conflict: "",
  error: "",
});

/** The job after a page of its events. */
export function withPage(job, { status, next_cursor: cursor, events }) {
  const folded = events.reduce((now, event) => STEP[event.type]?.(now, event) ?? now, job);
  const isRead = job.isRead || events.length === 0;
  return { ...folded, status, cursor, isRead };
}

const STEP = {
  "job.started": (job, { ts }) => ({ ...job, since: ts }),
  "agent.message": (job, { cursor, data }) =>
    withStep(job, { id: `m${cursor}`, words: oneLine(data.text), phase: "said", aside: "" }),
  "tool.call.requested": (job, { data }) =>
    withStep(job, { id: data.tool_call_id, words: describeCall(data.name, data.arguments ?? {}), phase: "running", aside: "" }),
  "tool.call.completed": (job, { data }) => ({
    ...job,
    steps: job.steps.map((step) =>
      step.id === data.tool_call_id && step.phase === "running"
        ? { ...step, phase: data.ok ? "done" : "failed", aside: describeResult(data) }
        : step),
  }),
  "clarification.requested": (job, { data }) => ({ ...job, question: data }),
  "clarification.received": (job) => ({ ...job, question: null }),
  "diff.generated": (job, { ts, data }) => ({
    ...job,
    until: ts,
    question: null,
    proposed: { hunks: data.files.reduce((sum, file) => sum + file.hunk_ids.length, 0), files: data.files.length },
    incomplete: data.incomplete ?? "",
  }),
  "conflict.detected": (job, { data }) => ({ ...job, conflict: data.message }),
  "rerun.started": (job) => ({ ...job, conflict: "" }),
  "apply.completed": (job, { ts }) => ({ ...job, until: ts, conflict: "" }),
  "job.completed": (job, { ts }) => ({ ...job, until: ts }),
  "job.failed": (job, { ts, data }) => ({ ...job, until: ts, question: null, error: data.error }),
};

const withStep = (job, step) => ({ ...job, steps: [...job.steps, step].slice(-STEPS) });
const oneLine = (text) => truncate(reveal(String(text)).replace(/\s+/g, " ").trim(), WIDTH);

/** What a call does, in a few words: "searching “onboarding”". */
export function describeCall(name, args) {
  const lines = args.start_line ? `:${args.start_line}${args.end_line ? `–${args.end_line}` : ""}` : "";
  const words = {
    search_project: () => `searching “${args.query}”${args.glob ? ` in ${args.glob}` : ""}`,
    read_file: () => `reading ${args.file_path}${lines}`,
    list_files: () => `listing ${[args.prefix, args.glob].filter(Boolean).join(" ") || "the files"}`,
    clarify_user: () => "asking you",
    propose_edits: () => (Array.isArray(args.edits) ? `proposing ${pluralize(args.edits.length, "edit")}` : "proposing edits"),
  }[name];
  return oneLine(words ? words() : formatCall(name, args));
}

function describeResult({ ok, error, result_count: count, duration_ms: taken }) {
  if (!ok) return oneLine(error || "failed");
  return [Number.isInteger(count) && `${count} found`, taken >= 1 && formatDuration(taken)].filter(Boolean).join(" · ");
}

/** What a job does now, or has come to. `left` is how many of its files still wait for a decision or a save. */
export function describeStatus(job, left = 0) {
  switch (job.status) {
    case "queued":
      return "Waits for its turn";
    case "running":
      return job.steps.findLast((step) => step.phase === "running")?.words ?? "Thinking";
    case "waiting_for_user":
      return "Waits for your answer";
    case "awaiting_review":
      return left > 0 ? `To review: ${pluralize(left, "file")}` : "Nothing of it is left to decide";
    case "failed":
      return "Failed";
    default:
      return job.proposed ? "Reviewed" : "Done. It proposed no change";
  }
}

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
      end: button("End the review", actions.end),
    };
    this.list = h("ol", { class: "job-steps", "aria-label": "Steps of the job", tabindex: "0" });
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

  /** `files` are those of the project that wait, null while they are not known. */
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

  /** Only the lines that changed are written: steps are never taken out of the middle. */
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

const PHASES = { said: "", running: "under way: ", done: "", failed: "failed: " };

const stepLine = ({ words, phase, aside }) =>
  h("li", { class: "step", "data-phase": phase },
    h("span", { class: "step-head" }, h("span", { class: "mark", "aria-hidden": "true" })),
    h("span", { class: "sr-only" }, PHASES[phase]),
    h("span", { class: "call-words", title: words }, words), h("span", { class: "aside" }, aside));
