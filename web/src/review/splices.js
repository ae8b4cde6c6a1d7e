// Conversion between the text of an editor and the lines of a file.
//
// The editor's lines have no ends. In a file "\n" ends a line, and a "\r" before it belongs to the end; nothing else does, neither
// a single "\r" nor U+2028. So each line of a file keeps its own end.

import { ChangeSet, Text } from "@codemirror/state";
import { diff } from "../patience.js";

/**
 * A file for the editor: its text, and which of its lines end with "\r\n". If the text equals `expected`, that object is reused:
 * to compare is much cheaper than to build it.
 */
export function fileOf(content, expected = null) {
  const ends = expected && endsIn(content, expected);
  if (ends) return { text: expected, ...ends };
  const lines = content.split("\n");
  const last = lines.length - 1;
  const returns = new Uint8Array(lines.length);
  let count = 0;
  for (let at = 0; at < last; at += 1) {
    if (!lines[at].endsWith("\r")) continue;
    lines[at] = lines[at].slice(0, -1);
    returns[at] = 1;
    count += 1;
  }
  return { text: Text.of(lines), returns, usual: usualEnd(count, last) };
}

const usualEnd = (returns, ends) => (returns * 2 > ends ? "\r\n" : "\n");

const [RETURN, NEWLINE] = [13, 10];

/** How the lines of `text` end in a file; null if the file has a different text. */
function endsIn(content, text) {
  const last = text.lines - 1;
  const returns = new Uint8Array(text.lines);
  let [place, at, count] = [0, 0, 0];
  for (const line of text.iterLines()) {
    if (!content.startsWith(line, place)) return null;
    place += line.length;
    if (at === last) break;
    if (content.charCodeAt(place) === RETURN) [place, returns[at], count] = [place + 1, 1, count + 1];
    else if (line.endsWith("\r")) return null; // it belongs to the end
    if (content.charCodeAt(place) !== NEWLINE) return null;
    [place, at] = [place + 1, at + 1];
  }
  return place === content.length ? { returns, usual: usualEnd(count, last) } : null;
}

/** The change from text `a` to text `b`, by lines. */
export function changesBetween(a, b) {
  const [before, after] = [a.toJSON(), b.toJSON()];
  const changes = diff(before, after).map(([a0, a1, b0, b1]) => {
    const lines = after.slice(b0, b1);
    if (a1 < before.length) return narrowed(a, a.line(a0 + 1).from, a.line(a1 + 1).from, [...lines, ""].join("\n"));
    if (a0 === 0) return narrowed(a, 0, a.length, lines.join("\n"));
    return narrowed(a, a.line(a0).to, a.length, ["", ...lines].join("\n"));
  });
  return ChangeSet.of(changes.map((each) => ({ ...each, insert: Text.of(each.insert.split("\n")) })), a.length);
}

const isHalf = (text, at) => /[\udc00-\udfff]/.test(text[at] ?? "");

/** Narrow a change by the common text at its ends, without splitting surrogate pairs. */
function narrowed(text, from, to, insert) {
  const old = text.sliceString(from, to, "\n");
  const most = Math.min(old.length, insert.length);
  let head = 0;
  while (head < most && old[head] === insert[head]) head += 1;
  if (head > 0 && (isHalf(old, head) || isHalf(insert, head))) head -= 1;
  let tail = 0;
  while (tail < most - head && old.at(-1 - tail) === insert.at(-1 - tail)) tail += 1;
  if (tail > 0 && isHalf(old, old.length - tail)) tail -= 1;
  return { from: from + head, to: to - tail, insert: insert.slice(head, insert.length - tail) };
}

/** Split a change: its first `count` pieces, and the others as a subsequent change. */
export function splitChange(changes, count) {
  const pieces = [];
  changes.iterChanges((from, to, _, __, insert) => pieces.push({ from, to, insert }), true);
  if (pieces.length <= count) return [changes, ChangeSet.empty(changes.newLength)];
  const first = ChangeSet.of(pieces.slice(0, count), changes.length);
  const by = first.newLength - first.length;
  const rest = pieces.slice(count).map(({ from, to, insert }) => ({ from: from + by, to: to + by, insert }));
  return [first, ChangeSet.of(rest, first.newLength)];
}

/** The line splices, `{start_line, delete_lines, new_text}`, equivalent to `changes`. */
export function splicesOf(file, changes) {
  const { text, returns, usual } = file;
  const doc = changes.apply(text);
  const cameFrom = originsOf(changes);
  const old = (at) => {
    const line = text.line(at + 1).text;
    return at === text.lines - 1 ? line : line + (returns[at] ? "\r\n" : "\n");
  };
  const now = (at) => {
    const line = doc.line(at + 1);
    if (at === doc.lines - 1) return line.text;
    const origin = cameFrom(line.to);
    if (origin === null) return line.text + usual;
    return line.text + (returns[text.lineAt(origin).number - 1] ? "\r\n" : "\n");
  };
  return lineSpans(text, changes, doc).flatMap(([a0, a1, b0, b1]) => {
    while (a0 < a1 && b0 < b1 && old(a0) === now(b0)) a0++, b0++;
    while (a0 < a1 && b0 < b1 && old(a1 - 1) === now(b1 - 1)) a1--, b1--;
    let added = "";
    for (let at = b0; at < b1; at += 1) added += now(at);
    // After the last line end the editor has one more line, an empty one; the file has none.
    const removed = a1 - a0 - (a1 > a0 && a1 === text.lines && old(a1 - 1) === "" ? 1 : 0);
    return removed || added ? [{ start_line: a0 + 1, delete_lines: removed, new_text: added }] : [];
  });
}

/** The line ranges that a change touches, before and after it, counted from 0; at least one line apart. */
function lineSpans(text, changes, doc) {
  const spans = [];
  changes.iterChangedRanges((fromA, toA, fromB, toB) => {
    const [a0, a1] = [text.lineAt(fromA).number - 1, text.lineAt(toA).number];
    const [b0, b1] = [doc.lineAt(fromB).number - 1, doc.lineAt(toB).number];
    const last = spans.at(-1);
    if (last && a0 <= last[1]) [last[1], last[3]] = [a1, b1];
    else spans.push([a0, a1, b0, b1]);
  }, true);
  return spans;
}

/** The position before a change of the character at a position after it; null if it was inserted. */
function originsOf(changes) {
  const gaps = [];
  changes.iterGaps((a, b, length) => gaps.push({ a, b, length }));
  return (place) => {
    let [low, high] = [0, gaps.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (gaps[middle].b + gaps[middle].length <= place) low = middle + 1;
      else high = middle;
    }
    const gap = gaps[low];
    return gap && gap.b <= place ? gap.a + place - gap.b : null;
  };
}
