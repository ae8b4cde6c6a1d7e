// The text and totals that describe fleets. Pure.

import { formatCost, formatCount, pluralize, reveal, truncate } from "../format.js";

const ORDER = ["running", "queued", "waiting", "asking", "completed", "stopped", "failed", "cancelled"];
const LIVE = new Set(["queued", "running", "waiting", "asking"]);
const MAX_TITLE = 200; // characters

export const isLive = (status) => LIVE.has(status);

/** The status of a fleet by the numbers of its jobs: the one that a user has to know first. */
export function statusOf(states) {
  const has = (status) => states[status] > 0;
  if (has("running")) return "running";
  if ([...LIVE].some(has)) return "queued";
  return ["failed", "stopped", "cancelled"].find(has) ?? "completed";
}

export const total = (states) => Object.values(states).reduce((sum, count) => sum + count, 0);

/** [["running", 2], ["queued", 4], ["completed", 5]]: what needs a look first. */
export const ordered = (states) => Object.entries(states).filter(([, count]) => count > 0).sort(([one], [other]) => rank(one) - rank(other));
const rank = (status) => ORDER.indexOf(status) >>> 0; // what is not known comes last

/** "2 running · 4 queued · 5 completed". */
export const describeStates = (states) => ordered(states).map(([status, count]) => `${count.toLocaleString("en")} ${status}`).join(" · ");

/** "3 workers, 14 of 24 slots in use". */
export function describeWorkers(workers) {
  const ready = workers.filter(({ alive }) => alive);
  if (ready.length === 0) return "No worker is running. `newel worker` starts one.";
  const sum = (field) => ready.reduce((all, worker) => all + worker[field], 0);
  return `${pluralize(ready.length, "worker")}, ${sum("running")} of ${pluralize(sum("slots"), "slot")} in use`;
}

/** "$0.42 of $5 · 12k of 50k tokens"; "" if nothing is counted. */
export function describeSpending(spending) {
  if (!spending) return "";
  const { cost, tokens, maxCost = null, maxTokens = null } = spending;
  return [
    `${formatCost(cost)}${maxCost === null ? "" : ` of ${formatCost(maxCost)}`}`,
    `${formatCount(tokens)}${maxTokens === null ? "" : ` of ${formatCount(maxTokens)}`} tokens`,
  ].join(" · ");
}

/** The first line of a contract, and the values of its row. */
export function titleOf({ contract, values = {} }) {
  const row = Object.entries(values).map(([name, value]) => `${name}=${value}`).join(", ");
  return truncate(reveal(`${contract.text.trim().split("\n")[0]}${row && ` (${row})`}`), MAX_TITLE);
}

export const NO_USAGE = { input: 0, output: 0, cached: 0, cost: null };

/** The usage of a job after one of its events: its model's answers, and those of its judge. */
export function withUsage(usage, event) {
  const { usage: used, cost = null } = { message_end: event.message, evaluation: event }[event.type] ?? {};
  if (!used) return usage;
  return {
    input: usage.input + (used.input ?? 0),
    output: usage.output + (used.output ?? 0),
    cached: usage.cached + (used.cacheRead ?? 0),
    cost: cost === null ? usage.cost : (usage.cost ?? 0) + cost,
  };
}
