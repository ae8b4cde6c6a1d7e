// The last line of a conversation: its current activity, or a button to continue.

import { fill, h, icon } from "./dom.js";
import { elapsedTimer } from "./elapsed-timer.js";
import { isBlocked } from "./message.js";
import { isBusy } from "./store.js";

const QUESTION_MESSAGE = "Waiting for your answer.";

export class StatusLine {
  constructor({ retry = null }) {
    this.retry = retry;
    this.el = h("div", { class: "foot", role: "status" });
    this.shown = null;
  }

  update({ tab, transcript, stopping, pending = [] }) {
    const canRetry = this.retry && transcript.ready && pending.length === 0;
    const state = isBusy(tab) ? describeActivity(tab, transcript, stopping) : canRetry ? describeRest(transcript) : "";
    if (state === this.shown) return;
    this.shown = state;
    const button = state === "Retry" || state === "Continue";
    if (!state) fill(this.el);
    else if (button) fill(this.el, h("button", { type: "button", class: "again", onclick: this.retry }, icon("again"), state));
    else if (state === QUESTION_MESSAGE) fill(this.el, icon("question"), state);
    else fill(this.el, h("span", { class: "spinner", "aria-hidden": "true" }), h("span", {}, state, " "),
      h("span", { "aria-hidden": "true" }, elapsedTimer())); // a screen reader would say each second
  }
}

function describeActivity(tab, transcript, stopping) {
  if (stopping === "now") return "Stopping…";
  if (stopping === "soon") return "Stopping before the next request…";
  if (transcript.questions.length) return QUESTION_MESSAGE;
  const calls = Object.values(transcript.calls).filter((call) => call.working);
  const running = calls.length;
  if (running && calls.every((call) => call.nested)) return running === 1 ? "A subagent is working…" : `${running} subagents are working…`;
  if (running) return running === 1 ? "Running a tool…" : `${running} tools running…`;
  const part = transcript.live?.parts.at(-1);
  const last = transcript.entries.at(-1);
  if (!part && last?.kind === "retry" && last.outcome === null) return `Retrying (attempt ${last.attempt} of ${last.of}).`;
  if (!part) return "Waiting for the model…";
  return part.type === "thinking" ? "Thinking…" : "Writing…";
}

function describeRest(transcript) {
  if (transcript.queue.some((each) => each.held)) return "Continue";
  const last = transcript.entries.findLast((entry) => entry.kind !== "custom" && entry.kind !== "notice");
  if (last?.code === "prompt_blocked" || (last?.kind === "user" && isBlocked(last.message))) return ""; // nothing to answer
  if (["error", "user", "newel"].includes(last?.kind)) return "Retry";
  if (last?.kind === "end") return "Continue";
  if (last?.kind !== "assistant") return "";
  const { stopReason = "stop" } = last.message;
  if (stopReason === "error") return "Retry";
  return stopReason === "stop" ? "" : "Continue";
}
