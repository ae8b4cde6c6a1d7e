// The dialog of usage: tokens, cost and time of models and tools, as a plot of days and a table.

import { dialogHead, openDialog } from "./dialog.js";
import { fill, h, icon, setText } from "./dom.js";
import { formatCost, formatCount, formatDuration, plain, pluralize, reveal } from "./format.js";

const DAY_MS = 86_400_000;
const SHOWN_DAYS = 31;
const BY = [["model", "Model"], ["project", "Project"], ["day", "Day"], ["tool", "Tool"]];
const SINCE = [["7", "Last 7 days"], ["31", "Last 31 days"], ["", "All time"]];
const SCOPE = [["project", "This project"], ["all", "All projects"]];

const MODEL_COLUMNS = [
  ["Runs", ({ runs }) => number(runs)],
  ["Requests", ({ requests }) => number(requests)],
  ["Input", ({ input }) => formatCount(input)],
  ["Cached", ({ input, cached }) => (input ? `${Math.round((100 * cached) / input)} %` : "-")],
  ["Output", ({ output }) => formatCount(output)],
  ["Cost", costOf],
  ["Model time", ({ timed, modelTime }) => (timed ? formatDuration(modelTime) : "-")],
  ["Tool time", ({ toolTime }) => formatDuration(toolTime)],
  ["Calls", ({ calls }) => number(calls)],
  ["Failed", ({ failed }) => number(failed)],
];
const TOOL_COLUMNS = [
  ["Calls", ({ calls }) => number(calls)],
  ["Failed", ({ failed }) => number(failed)],
  ["Time", ({ toolTime }) => formatDuration(toolTime)],
  ["A call", ({ calls, toolTime }) => formatDuration(toolTime / Math.max(calls, 1))],
];

/** Open the dialog; `usage({by, since, scope})` of the actions resolves to a report. */
export async function openUsage({ usage }) {
  const asked = { by: "model", since: "31", scope: "project" };
  const body = h("div", { class: "usage-body", tabindex: "0", role: "group", "aria-label": "Usage" }, h("p", { class: "dim" }, "Loading…"));
  const said = h("div", { class: "sr-only", role: "status" });
  let latest = 0;

  async function load() {
    const request = ++latest;
    try {
      const report = await usage({ ...asked, since: firstDay(asked.since) });
      if (request !== latest) return; // another was asked for meanwhile
      fill(body, ...content(report));
      setText(said, summary(report.total));
    } catch (error) {
      if (request === latest) fill(body, h("p", { class: "problem bad-text", role: "alert" }, icon("warn"), h("span", {}, plain(error.message))));
    }
  }

  const choice = (label, name, options) =>
    h("label", { class: "usage-choice" }, h("span", {}, label),
      h("select", {
        onchange: (event) => {
          asked[name] = event.target.value;
          void load();
        },
      }, ...options.map(([value, words]) => h("option", { value, selected: asked[name] === value }, words))));

  void load();
  await openDialog({
    label: "Usage",
    kind: "usage",
    build: (close) => [
      dialogHead("Usage", close),
      h("div", { class: "row" }, choice("By", "by", BY), choice("Since", "since", SINCE), choice("Of", "scope", SCOPE)),
      body, said,
    ],
  });
  latest = -1;
}

const firstDay = (days) => (days ? dayOf(new Date(Date.now() - (Number(days) - 1) * DAY_MS)) : "");

const dayOf = (date) =>
  [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0")).join("-");

function content(report) {
  const { total, rows, days, by, problems } = report;
  if (!total.requests && !total.calls) return [h("p", { class: "empty" }, "Nothing is recorded here."), ...notes(report)];
  return [
    h("p", {}, summary(total)),
    days.length > 0 && plot(days),
    rows.length > 0 && table(by, rows),
    ...notes(report),
    ...problems.map((words) => h("p", { class: "problem bad-text" }, icon("warn"), h("span", {}, plain(words)))),
  ];
}

function summary(total) {
  const { runs, requests, input, output, cached, calls, failed } = total;
  const share = input ? ` (${Math.round((100 * cached) / input)} % cached)` : "";
  return [
    pluralize(runs, "run"), pluralize(requests, "request"),
    `${formatCount(input)} tokens in${share}`, `${formatCount(output)} out`, costOf(total),
    `${pluralize(calls, "call")}, ${number(failed)} failed`,
  ].join(" · ");
}

function notes({ total, unpriced }) {
  const names = Object.keys(unpriced);
  const shown = names.slice(0, 4).map(reveal).join(", ") + (names.length > 4 ? ` and ${names.length - 4} more` : "");
  const untimed = total.requests - total.timed;
  return [
    total.unpriced > 0 && `? The price of ${pluralize(total.unpriced, "request")} (${shown}) is unknown; the cost leaves them out.`,
    total.uncounted > 0 && `The server reported no tokens for ${pluralize(total.uncounted, "request")}.`,
    untimed > 0 && `An earlier version of Newel did not record the model's time of ${pluralize(untimed, "request")}.`,
  ].filter(Boolean).map((words) => h("p", { class: "dim" }, words));
}

/** One bar for each of the last days, those without any use included. The table by day has the same figures. */
function plot(days) {
  const known = new Map(days.map(({ name, counts }) => [name, counts]));
  const shown = lastDays([...known.keys()]);
  const tokens = (day) => (known.has(day) ? known.get(day).input + known.get(day).output : 0);
  const most = Math.max(1, ...shown.map(tokens));
  const bars = shown.map((day) => {
    const bar = h("div", { class: "usage-bar", title: `${day}: ${formatCount(tokens(day))} tokens` });
    bar.style.height = tokens(day) ? `max(2px, ${(100 * tokens(day)) / most}%)` : "0";
    return bar;
  });
  const label = `Tokens a day, from ${shown[0]} to ${shown.at(-1)}, at most ${formatCount(most)}`;
  return h("figure", { class: "usage-plot" },
    h("div", { class: "usage-bars", role: "img", "aria-label": label }, ...bars),
    h("figcaption", { class: "dim" }, h("span", {}, shown[0]), h("span", {}, `tokens a day, at most ${formatCount(most)}`), h("span", {}, shown.at(-1))));
}

function lastDays(known) {
  const dates = known.filter((day) => /^\d/.test(day)).sort();
  if (dates.length === 0) return known;
  const last = Date.parse(dates.at(-1));
  const count = 1 + Math.max(...dates.map((day) => Math.round((last - Date.parse(day)) / DAY_MS)).filter((back) => back < SHOWN_DAYS));
  return Array.from({ length: count }, (_, at) => new Date(last - (count - 1 - at) * DAY_MS).toISOString().slice(0, 10));
}

function table(by, rows) {
  const columns = by === "tool" ? TOOL_COLUMNS : MODEL_COLUMNS;
  const title = BY.find(([value]) => value === by)[1];
  return h("div", { class: "usage-scroll", tabindex: "0", role: "region", "aria-label": `Usage by ${by}` },
    h("table", { class: "usage-table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, title), ...columns.map(([words]) => h("th", { scope: "col" }, words)))),
      h("tbody", {}, ...rows.map(({ name, counts }) =>
        h("tr", {}, h("th", { scope: "row" }, reveal(name)), ...columns.map(([, text]) => h("td", {}, text(counts))))))));
}

const number = (count) => count.toLocaleString("en");

function costOf({ cost, unpriced }) {
  if (cost === null) return unpriced ? "?" : "-";
  return unpriced ? `${formatCost(cost)} + ?` : formatCost(cost);
}
