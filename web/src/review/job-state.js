// A review job, reduced from its events. Pure: each step returns a new value.

import { dictionary } from "../dictionary.js";
import { formatCall, formatDuration, pluralize, reveal, truncate } from "../format.js";

const MAX_STEPS = 300; // steps that are kept, the latest
const MAX_STEP_LENGTH = 160; // characters of a step's line

export const isLive = (status) => status === "queued" || status === "running" || status === "waiting_for_user";

export const emptyJob = (id) => ({
  id,
  status: "queued",
  isKnown: false, // whether the status is the server's
  cursor: 0,
  isRead: false, // whether all its events were read once
  since: "",
  until: "",
  steps: [], // {id, words, phase: "said" | "running" | "done" | "failed", aside}
  question: null, // {question_id, question}
  proposed: null, // {hunks, files}
  incomplete: "", // why it ended early although it proposed changes
  conflict: "",
  error: "",
});

/** Apply a page of a job's events. */
export function withPage(job, { status, next_cursor: cursor, events }) {
  const folded = events.reduce((now, event) => REDUCERS[event.type]?.(now, event) ?? now, job);
  const isRead = job.isRead || events.length === 0;
  return { ...folded, status, isKnown: true, cursor, isRead };
}

const REDUCERS = {
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

const withStep = (job, step) => ({ ...job, steps: [...job.steps, step].slice(-MAX_STEPS) });
const oneLine = (text) => truncate(reveal(String(text)).replace(/\s+/g, " ").trim(), MAX_STEP_LENGTH);

/** Describe a tool call: "searching “onboarding”". */
export function describeCall(name, args) {
  const lines = args.start_line ? `:${args.start_line}${args.end_line ? `–${args.end_line}` : ""}` : "";
  const words = dictionary({
    search_project: () => `searching “${args.query}”${args.glob ? ` in ${args.glob}` : ""}`,
    read_file: () => `reading ${args.file_path}${lines}`,
    list_files: () => `listing ${[args.prefix, args.glob].filter(Boolean).join(" ") || "the files"}`,
    clarify_user: () => "asking you",
    propose_edits: () => (Array.isArray(args.edits) ? `proposing ${pluralize(args.edits.length, "edit")}` : "proposing edits"),
  })[name];
  return oneLine(words ? words() : formatCall(name, args));
}

function describeResult({ ok, error, result_count: count, duration_ms: taken }) {
  if (!ok) return oneLine(error || "failed");
  return [Number.isInteger(count) && `${count} found`, taken >= 1 && formatDuration(taken)].filter(Boolean).join(" · ");
}

/** Describe a job's activity or outcome. `left`: how many of its files need a decision or a save. */
export function describeStatus(job, left = 0) {
  switch (job.status) {
    case "queued":
      return "Queued";
    case "running":
      return job.steps.findLast((step) => step.phase === "running")?.words ?? "Thinking";
    case "waiting_for_user":
      return "Waiting for your answer";
    case "awaiting_review":
      return left > 0 ? `To review: ${pluralize(left, "file")}` : "Nothing left to decide";
    case "failed":
      return "Failed";
    default:
      return job.proposed ? "Reviewed" : "Done. No changes proposed";
  }
}
