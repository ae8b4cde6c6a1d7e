// Text and numbers as the page shows them. Pure functions.

import { dictionary } from "./dictionary.js";

const CALL_WIDTH = 80; // characters of a tool call's line, the ellipsis included
const LAST_LINE = 160; // characters of the line below a running subagent
const SUMMARY_WIDTH = 40; // characters of a command's last output line

/** Truncate a text to `width` code points, the ellipsis included. */
export function truncate(text, width) {
  if (text.length <= width) return text;
  const signs = [...text];
  return signs.length <= width ? text : `${signs.slice(0, width - 1).join("")}…`;
}

// Escape sequences (colours, cursor, titles, links), and control characters except tab and line feed.
const ESCAPES = /\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[ -/]*[0-~]?/g;
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;
const TURNS = /[\u202a-\u202e\u2066-\u2069]/g; // bidirectional control characters

/** Write out bidirectional control characters, which could reorder the text on the screen. */
export const escapeBidi = (text) => text.replace(TURNS, formatCodePoint);

/** Text of a tool or a file to read: without escape sequences and control characters, bidirectional ones written out. */
export const plain = (text) => escapeBidi(text.replace(ESCAPES, "").replace(/\r\n?/g, "\n").replace(CONTROLS, ""));

/** A folder with `~` for the user's home. */
export const shortFolder = (folder, home) =>
  home && (folder === home || folder.startsWith(`${home}/`)) ? `~${folder.slice(home.length)}` : folder;

const PICTURE = "\\p{Extended_Pictographic}[\\ufe0f\\p{Emoji_Modifier}]?"; // may consist of several characters, some of which would be hidden elsewhere
const HIDERS = [
  "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\xa0\\xad\\u034f\\u061c\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180b-\\u180f\\u2000-\\u200f]",
  "[\\u2028-\\u202f\\u205f-\\u206f\\u2800\\u3000\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff9-\\ufffc]",
  "[\\u{e0000}-\\u{e0fff}\\u{1d159}\\u{13441}\\u{13442}\\u{16fe4}]",
  "\\p{Default_Ignorable_Code_Point}",
  "\\p{Co}|\\p{Cs}",
].join("|");
const HIDDEN = new RegExp(`(${PICTURE}(?:\\u200d${PICTURE})*)|${HIDERS}`, "gu");

/**
 * A character that could hide or disguise another: all that `reveal` writes out, except those that join an emoji, and the
 * spaces that are usual in French and Chinese prose.
 */
export const HIDDEN_CHARACTER = new RegExp(
  `(?!(?<=\\p{Extended_Pictographic})\\ufe0f|(?<=${PICTURE})\\u200d(?=\\p{Extended_Pictographic})|[\\xa0\\u202f\\u3000])(?:${HIDERS})`,
  "u",
);

/** Text to decide on: each character that could hide or disguise another is written out. */
export const reveal = (text) => text.replace(HIDDEN, (sign, picture) => picture ?? formatCodePoint(sign));

/** A file name; line breaks and tabs are written out, too. */
export const revealPath = (path) => reveal(path).replace(/[\n\t]/g, formatCodePoint);

export const formatCodePoint = (sign) => `<U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`;

const MAX_MESSAGE = 1_000_000; // characters that the server takes

/** Why a message cannot be sent; "" if it can. */
export const describeExcess = (text) =>
  text.length > MAX_MESSAGE ? `The message has ${formatNumber(text.length)} characters; at most ${formatNumber(MAX_MESSAGE)} can be sent. Attach a part of it as a file.` : "";

/** Text on one line. */
const oneLine = (text) => onOneLine(plain(text));
const onOneLine = (text) => text.replace(/(?<!\s)\s*\n\s*/g, " ↵ ").replace(/\t/g, " ").trim();

const MAIN_ARGUMENTS = ["command", "file_path", "path", "pattern", "query", "url"];
const OWN_MAIN = dictionary({ task: ["description"] });
/** Arguments of write and edit that the diff below the line shows, and others that only the unfolded call shows. */
const CHANGED_TEXT = ["content", "edits", "old_string", "new_string"];
const UNFOLDED = dictionary({ write: CHANGED_TEXT, edit: CHANGED_TEXT, task: ["prompt"] });
const LISTED = dictionary({ todo: ["items"] });

/** A tool call on one line: its name and parameters, at most 80 characters. */
export function formatCall(name, args) {
  const given = args && typeof args === "object" ? Object.entries(args) : [];
  const main = given.find(([key, value]) => (OWN_MAIN[name] ?? MAIN_ARGUMENTS).includes(key) && typeof value === "string");
  const hidden = (main && UNFOLDED[name]) || LISTED[name] || [];
  const rest = given.filter((pair) => pair !== main && !hidden.includes(pair[0])).map(([key, value]) => `${key}=${brief(value)}`);
  const words = revealOnOneLine([name, ...(main ? [main[1].slice(0, 400)] : []), ...rest].join(" "));
  return truncate(words.replace(/ {2,}/g, " "), CALL_WIDTH);
}

const revealOnOneLine = (text) => onOneLine(reveal(text));

const brief = (value) =>
  typeof value === "string" ? JSON.stringify(value.slice(0, 200)) : JSON.stringify(value)?.slice(0, 200);

/** 12345 → "12,345". */
export const formatNumber = (count) => count.toLocaleString("en");

export const pluralize = (count, word) => `${formatNumber(count)} ${word}${count === 1 ? "" : "s"}`;

// Numbers are formatted as in src/newel/text/format.py; tests/fixtures/number_formats.json holds both to it.

const round = (number, digits = 0) => Math.floor(number * 10 ** digits + 0.5) / 10 ** digits;

/** 3100 → "3.1k". */
export function formatCount(count) {
  const [divisor, unit] = count < 1_000 ? [1, ""] : count < 999_950 ? [1_000, "k"] : [1_000_000, "M"];
  return round(count / divisor, 1).toFixed(1).replace(/\.0$/, "") + unit;
}

/** Milliseconds as "4 ms", "1.9 s", "2 min 5 s", "1 h 2 min". */
export function formatDuration(ms) {
  if (ms < 999.5) return `${round(ms)} ms`;
  if (ms < 59_950) return `${round(ms / 1_000, 1).toFixed(1)} s`;
  const seconds = round(ms / 1_000);
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** "142 bytes", "1.2 kB", "4.7 GB". */
export function formatBytes(bytes) {
  if (bytes < 1_000) return pluralize(bytes, "byte");
  const [divisor, unit] = bytes < 999_950 ? [1e3, "kB"] : bytes < 999_950_000 ? [1e6, "MB"] : [1e9, "GB"];
  return `${round(bytes / divisor, 1).toFixed(1)} ${unit}`;
}

/** "+1,300 −12", without zeros. */
export const formatLineCounts = (added, removed) =>
  [added && `+${formatNumber(added)}`, removed && `−${formatNumber(removed)}`].filter(Boolean).join(" ");

/** A program's or server's message as a sentence. */
export function toSentence(text) {
  const words = plain(text).trim();
  return /[.!?…:)\]}"'`]$/.test(words) ? words : `${words}.`;
}

/** The state of a retried request: reason and delay while it is pending, afterwards its outcome. */
export function describeRetry({ attempt, of, delay, reason, outcome }) {
  if (outcome === "failed") return `Failed after ${attempt} attempts.`;
  if (outcome === "answered") return `${toSentence(reason)} The model answered on attempt ${attempt} of ${of}.`;
  return `${toSentence(reason)} Retrying in ${Math.max(1, Math.round(delay))} s (attempt ${attempt} of ${of}).`;
}

/** A conversation's usage: "3.1k in (82 % cached) · 420 out · $0.004 · 11 % of 128k"; "" for none. */
export function formatUsage({ input, output, cached, context, window, cost }) {
  if (!input && !output) return "";
  const share = cached ? ` (${round((100 * cached) / input)} % cached)` : "";
  const parts = [`${formatCount(input)} in${share}`, `${formatCount(output)} out`];
  if (cost !== null && cost !== undefined) parts.push(formatCost(cost));
  if (context && window) parts.push(`${round((100 * context) / window)} % of ${formatCount(window)}`);
  else if (context) parts.push(`${formatCount(context)} context`);
  return parts.join(" · ");
}

/** US dollars: "$0.004", "$1.20". */
export function formatCost(dollars) {
  if (dollars === 0) return "$0";
  if (dollars > 0 && dollars < 0.0005) return "under $0.001";
  const digits = dollars < 0.9995 ? 3 : 2;
  return `$${round(dollars, digits).toFixed(digits)}`;
}

/** The known details of a model: "200k · $3 / $15 per M · thinking"; prices are of input and output, "+" stands for higher ones beyond a size. */
export function describeModel({ contextWindow, inputPrice, outputPrice, hasTiers, thinking }) {
  const price = inputPrice !== null && `$${inputPrice} / $${outputPrice}${hasTiers ? "+" : ""} per M`;
  return [contextWindow && formatCount(contextWindow), price, thinking && "thinking"].filter(Boolean).join(" · ");
}

/** A todo list's progress: "2 of 5 done". */
export const describeProgress = (items) => `${items.filter((item) => item.status === "done").length} of ${items.length} done`;

/** The last line of an output that is not blank. */
export const lastLineOf = (text) => truncate(oneLine(text.slice(-4_000).trimEnd().split("\n").at(-1) ?? ""), LAST_LINE);

/** The outcome of a call: "212 lines", "exit code 1", "+14 −3", or a command's last output line. */
export function describeOutcome(name, result) {
  const { output, isError, details } = result;
  if (details.timedOut) return "timed out";
  if (output.startsWith("Interrupted:")) return "interrupted";
  if (output.startsWith("Not run:")) return "not run";
  if (details.exitCode) return `exit code ${details.exitCode}`;
  if (isError) return "failed";
  return facts(details) || lastWords(name, output);
}

/** The figures that built-in tools report. */
function facts({ diff, isNew, size: bytes, linesRead, entries, width, height, calls, cost, items }) {
  if (Number.isInteger(calls)) return [pluralize(calls, "call"), cost && formatCost(cost)].filter(Boolean).join(" · ");
  if (Array.isArray(items)) return describeProgress(items);
  if (isNew && Number.isInteger(bytes)) return `new, ${formatBytes(bytes)}`;
  if (typeof diff === "string" && diff) return changed(diff);
  if (Number.isInteger(linesRead)) return pluralize(linesRead, "line");
  if (Number.isInteger(entries)) return pluralize(entries, "name");
  return Number.isInteger(width) && Number.isInteger(height) ? `${width} × ${height}` : "";
}

/** A command's last output line; for other tools the output, if it is a single line. */
function lastWords(name, output) {
  const lines = plain(readableOutput(name, output).slice(-4_000)).split("\n").filter((line) => line.trim());
  const last = name === "bash" || lines.length === 1 ? (lines.at(-1) ?? "") : "";
  return truncate(oneLine(last), SUMMARY_WIDTH);
}

/** A call's output without its labels, if a command wrote to only one of its two streams. */
export function readableOutput(name, output) {
  const code = output.lastIndexOf("\nexit code: ");
  const middle = output.lastIndexOf(ERRORS, code);
  if (name !== "bash" || !output.startsWith(OUT) || code < 0 || middle < 0) return output;
  const out = output.slice(OUT.length, middle);
  const errors = output.slice(middle + ERRORS.length, code);
  if (out && errors) return output;
  const [, ...notes] = output.slice(code + 1).split("\n"); // about limits that were reached
  return [out || errors, ...notes].filter(Boolean).join("\n");
}

const OUT = "stdout:\n";
const ERRORS = "\nstderr:\n";

/** Whether a call failed. */
export const hasFailed = ({ isError, details }) => Boolean(isError || details.exitCode);

/** The lines of a unified diff: [{kind: "add" | "del" | "hunk" | "file" | "same", text}]. */
export function diffLines(diff) {
  let inHunk = false;
  return diff.replace(/\n$/, "").split("\n").map((text) => {
    if (text.startsWith("@@")) inHunk = true;
    else if (!inHunk) return { kind: "file", text };
    if (text.startsWith("@@")) return { kind: "hunk", text };
    if (text.startsWith("+")) return { kind: "add", text };
    return { kind: text.startsWith("-") ? "del" : "same", text };
  });
}

function changed(diff) {
  const lines = diffLines(diff);
  const count = (kind) => lines.filter((line) => line.kind === kind).length;
  return formatLineCounts(count("add"), count("del"));
}

/** A past time, in ms since 1970: "10:42", "yesterday 18:03", "12 Mar 18:03", "12 Mar 2024". */
export function formatTime(time, now = Date.now()) {
  const [date, today] = [new Date(time), new Date(now)];
  const yesterday = new Date(today.getFullYear(), today.getMonth(), today.getDate() - 1);
  const clock = date.toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  if (date.toDateString() === today.toDateString()) return clock;
  if (date.toDateString() === yesterday.toDateString()) return `yesterday ${clock}`;
  const day = `${date.getDate()} ${date.toLocaleDateString("en", { month: "short" })}`;
  return date.getFullYear() === today.getFullYear() ? `${day} ${clock}` : `${day} ${date.getFullYear()}`;
}

/** Fuzzy match score, 0 for no match: the letters in order; adjacent ones and word starts score higher. */
export function matchScore(query, text) {
  const wanted = query.toLowerCase().replace(/\s+/g, "");
  const given = text.toLowerCase();
  if (!wanted) return 1;
  const together = given.indexOf(query.toLowerCase().trim());
  if (together >= 0) return 1_000 - together;
  let place = -1;
  let score = 1;
  for (const sign of wanted) {
    const next = given.indexOf(sign, place + 1);
    if (next < 0) return 0;
    if (next === place + 1 || /\W/.test(given[next - 1] ?? " ")) score += 2;
    place = next;
  }
  return score;
}

/** A random identifier of 32 hexadecimal digits, as the server makes them. */
export const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
