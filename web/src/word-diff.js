// The words that changed: which removed and added lines belong together, and where they differ.
// src/newel/diff/words.py has the same algorithm in Python: change both.

import { diff } from "./patience.js";

const ALIKE = 0.4; // part of two lines that has to be equal for the rest to be marked
const MAX_WORDS = 400; // words of a line that are compared with another
const MAX_PAIRS = 1_000; // pairs of lines that are compared
const MAX_LINES = 2_000; // lines of a diff in which words are compared
const WORD = /(?:[\p{L}\p{N}_]+|[ \t]+|.)(?:[\u0300-\u036f\ufe0f\u{1f3fb}-\u{1f3ff}]|\u200d.)*/gsu; // with what is drawn together with it

const wordsOf = (line) => line.match(WORD) ?? [];
const sizeOf = (text) => [...text.replace(/^[ \t]+|(?<![ \t])[ \t]+$/g, "")].length;

/** The positions of removed lines and of the added ones that replace them: [[removed, added]]. */
export function linePairs(old, fresh) {
  if (old.length === fresh.length || old.length * fresh.length > MAX_PAIRS) return old.slice(0, fresh.length).map((_, at) => [at, at]);
  const others = fresh.map((line) => new Set(wordsOf(line)));
  const pairs = [];
  let first = 0;
  old.forEach((line, removed) => {
    const words = new Set(wordsOf(line));
    let [best, most] = [-1, -1];
    for (let added = first; added < fresh.length; added += 1) {
      const alike = [...words].filter((word) => others[added].has(word)).length;
      if (alike > most) [best, most] = [added, alike];
    }
    if (best < 0 || most < ALIKE * words.size) return;
    pairs.push([removed, best]);
    first = best + 1;
  });
  return pairs;
}

/** Where an old line and its new version differ: {old, fresh}, each [[start, end]]; nothing where they have too little in common. */
export function changedWords(old, fresh) {
  const [a, b] = [wordsOf(old), wordsOf(fresh)];
  if (a.length > MAX_WORDS || b.length > MAX_WORDS) return { old: [], fresh: [] };
  const spans = diff(a, b);
  const gone = spans.reduce((sum, [start, end]) => sum + sizeOf(a.slice(start, end).join("")), 0);
  const size = sizeOf(old);
  if (size - gone < ALIKE * Math.max(size, sizeOf(fresh))) return { old: [], fresh: [] };
  return { old: rangesOf(a, spans.map(([start, end]) => [start, end])), fresh: rangesOf(b, spans.map(([, , start, end]) => [start, end])) };
}

function rangesOf(words, spans) {
  const ends = [0];
  for (const word of words) ends.push(ends.at(-1) + word.length);
  return spans.filter(([start, end]) => start < end).map(([start, end]) => [ends[start], ends[end]]);
}

/** The changed words of removed and added lines that stand together: {old, fresh}, each a map from a line's position to ranges. */
export function changedIn(old, fresh) {
  const found = { old: new Map(), fresh: new Map() };
  for (const [removed, added] of linePairs(old, fresh)) {
    const words = changedWords(old[removed], fresh[added]);
    if (words.old.length > 0) found.old.set(removed, words.old);
    if (words.fresh.length > 0) found.fresh.set(added, words.fresh);
  }
  return found;
}

/** The same for lines {kind, text} of a diff: a map from a line's position to ranges. */
export function changedInDiff(lines) {
  const found = new Map();
  for (let at = 0; at < Math.min(lines.length, MAX_LINES); ) {
    const removed = endOf(lines, at, "del");
    const added = endOf(lines, removed, "add");
    const texts = (from, to) => lines.slice(from, to).map(({ text }) => text);
    const words = changedIn(texts(at, removed), texts(removed, added));
    for (const [place, ranges] of words.old) found.set(at + place, ranges);
    for (const [place, ranges] of words.fresh) found.set(removed + place, ranges);
    at = Math.max(added, at + 1);
  }
  return found;
}

function endOf(lines, at, kind) {
  while (at < lines.length && lines[at].kind === kind) at += 1;
  return at;
}

/** A text cut at its ranges: [{text, isChanged}]. */
export function cutAt(text, ranges = []) {
  const pieces = [];
  let at = 0;
  for (const [start, end] of ranges) {
    if (start > at) pieces.push({ text: text.slice(at, start), isChanged: false });
    pieces.push({ text: text.slice(start, end), isChanged: true });
    at = end;
  }
  if (at < text.length) pieces.push({ text: text.slice(at), isChanged: false });
  return pieces;
}
