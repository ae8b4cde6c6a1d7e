// Line diff: patience diff, and within its gaps the shortest edit script as far as that is cheap.
// src/newel/diff/ has the same algorithm in Python and explains it: change both.

const MAX_EDITS = 200;
const MAX_DEPTH = 32;
const MAX_STEPS = 1_000_000;

/**
 * The spans in which the lines `b` differ from the lines `a`, in order and not touching: `[a0, a1, b0, b1]` replaces the lines
 * `a0` to `a1` by the lines `b0` to `b1`, counted from 0, the end excluded.
 */
export const diff = (a, b) => {
  const spans = [];
  const steps = { left: MAX_STEPS };
  const todo = [];
  const later = (gaps, depth) => gaps.forEach((gap) => todo.push({ gap, depth }));
  later(between(a, b, [], [0, a.length, 0, b.length]), 0);
  while (todo.length > 0) {
    const { gap: whole, depth } = todo.pop();
    const gap = trim(a, b, whole);
    const [a0, a1, b0, b1] = gap;
    if (a0 === a1 || b0 === b1) {
      spans.push(gap);
      continue;
    }
    const anchors = depth < MAX_DEPTH ? anchorsOf(a, b, gap) : [];
    if (anchors.length > 0) {
      later(between(a, b, anchors, gap), depth + 1);
      continue;
    }
    const { matches, isWhole } = shortestScript(a, b, gap, steps);
    const pieces = between(a, b, matches, gap);
    if (matches.length > 0 && !isWhole) later([pieces.pop()], depth);
    spans.push(...pieces);
  }
  return spans.sort((one, other) => one[0] - other[0] || one[2] - other[2]);
};

/** A gap without the common lines at its ends. */
const trim = (a, b, [a0, a1, b0, b1]) => {
  while (a0 < a1 && b0 < b1 && a[a0] === b[b0]) a0++, b0++;
  while (a0 < a1 && b0 < b1 && a[a1 - 1] === b[b1 - 1]) a1--, b1--;
  return [a0, a1, b0, b1];
};

/** The spans between matches, which are in order. */
const between = (a, b, matches, [start, end, startB, endB]) => {
  const spans = [];
  let [a0, b0] = [start, startB];
  for (const [i, j] of [...matches, [end, endB]]) {
    if (!same(a, a0, i, b, b0, j)) spans.push([a0, i, b0, j]);
    a0 = i + 1;
    b0 = j + 1;
  }
  return spans;
};

const same = (a, a0, a1, b, b0, b1) => {
  if (a1 - a0 !== b1 - b0) return false;
  while (a0 < a1) if (a[a0++] !== b[b0++]) return false;
  return true;
};

/** The longest common subsequence of the lines that are unique on both sides. */
const anchorsOf = (a, b, [a0, a1, b0, b1]) => {
  const [once, onceB] = [onceIn(a, a0, a1), onceIn(b, b0, b1)];
  const pairs = [];
  for (const [line, i] of once) {
    const j = i < 0 ? -1 : onceB.get(line) ?? -1;
    if (j >= 0) pairs.push([i, j]);
  }
  return ascending(pairs);
};

/** The position of each line; -1 for one that occurs several times. */
const onceIn = (lines, start, end) => {
  const places = new Map();
  for (let index = start; index < end; index++) places.set(lines[index], places.has(lines[index]) ? -1 : index);
  return places;
};

/** The longest subsequence of pairs, sorted by their first, whose second ascends (patience sorting). */
const ascending = (pairs) => {
  const [tops, piles, before] = [[], [], []];
  pairs.forEach(([, j], index) => {
    const pile = tops.length === 0 || tops.at(-1) < j ? tops.length : firstNotBelow(tops, j);
    before.push(pile > 0 ? piles[pile - 1] : -1);
    tops[pile] = j;
    piles[pile] = index;
  });
  const series = [];
  for (let at = piles.at(-1) ?? -1; at >= 0; at = before[at]) series.push(pairs[at]);
  return series.reverse();
};

const firstNotBelow = (ascending, value) => {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
};

/**
 * The matches of the shortest edit script, or of the part that `MAX_EDITS` reach; none if the steps run out. Subtracts its
 * cost from `steps`.
 */
const shortestScript = (a, b, gap, steps) => {
  const [a0, a1, b0, b1] = gap;
  const [n, m] = [a1 - a0, b1 - b0];
  const limit = Math.min(n + m, MAX_EDITS);
  const middle = limit + 1;
  const furthest = new Int32Array(2 * middle + 1); // the furthest x on the diagonal k = x - y, at middle + k
  const rounds = [];
  for (let edits = 0; edits <= limit; edits++) {
    rounds.push(furthest.slice(middle - edits - 1, middle + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const [left, right] = [furthest[middle + k - 1], furthest[middle + k + 1]];
      const start = goesDown(k, edits, left, right) ? right : left + 1;
      let x = start;
      while (x < n && x - k < m && a[a0 + x] === b[b0 + x - k]) x++;
      furthest[middle + k] = x;
      steps.left -= x - start + 1;
      if (x >= n && x - k >= m) return { matches: trace(rounds, gap, n, m), isWhole: true };
      if (steps.left <= 0) {
        steps.left = 0;
        return { matches: [] };
      }
    }
  }
  let best = -limit;
  const reach = (k) => 2 * furthest[middle + k] - k;
  for (let k = -limit; k <= limit; k += 2) if (reach(k) > reach(best)) best = k;
  const x = furthest[middle + best];
  return { matches: trace(rounds, gap, x, x - best) };
};

const goesDown = (k, edits, left, right) => k === -edits || (k !== edits && left < right);

/**
 * Trace the path of `shortest` back from `x, y`; returns its matches in order. `rounds` has for each number of edits the
 * furthest x with one edit less, from diagonal `-edits - 1` on.
 */
const trace = (rounds, [a0, , b0], x, y) => {
  const matches = [];
  for (let edits = rounds.length - 1; edits >= 0; edits--) {
    const k = x - y;
    const [left, right] = [rounds[edits][k + edits], rounds[edits][k + edits + 2]];
    const down = goesDown(k, edits, left, right);
    const start = down ? right : left + 1;
    while (x > start) matches.push([a0 + --x, b0 + --y]);
    [x, y] = down ? [right, right - k - 1] : [left, left - k + 1];
  }
  return matches.reverse();
};
