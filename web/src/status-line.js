// The last line of a conversation: what goes on now, or how to go on.

import { fill, h, icon } from "./dom.js";
import { elapsedTimer } from "./elapsed-timer.js";
import { isBusy } from "./store.js";

const ASKS = "Waits for your answer.";

export class StatusLine {
  constructor({ retry = null }) {
    this.retry = retry;
    this.el = h("div", { class: "foot", role: "status" });
    this.shown = null;
  }

  update({ tab, transcript, stopping, pending = [] }) {
    const canRetry = this.retry && transcript.ready && pending.length === 0;
    const state = isBusy(tab) ? working(tab, transcript, stopping) : canRetry ? rest(transcript) : "";
    if (state === this.shown) return;
    this.shown = state;
    const button = state === "Retry" || state === "Go on";
    if (!state) fill(this.el);
    else if (button) fill(this.el, h("button", { type: "button", class: "again", onclick: this.retry }, icon("again"), state));
    else if (state === ASKS) fill(this.el, icon("question"), state);
    else fill(this.el, h("span", { class: "spinner", "aria-hidden": "true" }), h("span", {}, state, " "), elapsedTimer(new Date().toISOString()));
  }
}

function working(tab, transcript, stopping) {
  if (stopping === "now") return "Stopping…";
  if (stopping === "soon") return "Stops before the next request.";
  if (transcript.questions.length) return ASKS;
  const running = Object.values(transcript.calls).filter((call) => call.working).length;
  if (running) return running === 1 ? "A tool runs." : `${running} tools run.`;
  const part = transcript.live?.parts.at(-1);
  const last = transcript.entries.at(-1);
  if (!part && last?.kind === "retry" && last.outcome === null) return `Trying again (attempt ${last.attempt} of ${last.of}).`;
  if (!part) return "Waits for the model.";
  return part.type === "thinking" ? "Thinking." : "Writing.";
}

function rest(transcript) {
  if (transcript.queue.some((each) => each.held)) return "Go on";
  const last = transcript.entries.findLast((entry) => entry.kind !== "custom" && entry.kind !== "notice");
  if (last?.kind === "error" || last?.kind === "user") return "Retry";
  if (last?.kind === "end") return "Go on";
  if (last?.kind !== "assistant") return "";
  const { stopReason = "stop" } = last.message;
  if (stopReason === "error") return "Retry";
  return stopReason === "stop" ? "" : "Go on";
}
