"""Line diff: patience diff, with the shortest edit script between its anchors as long as that is cheap.

Lines that occur once in both texts, in the same order, are anchors; the search is repeated between two anchors. Parts without
anchors are compared by Myers' algorithm (An O(ND) Difference Algorithm, 1986), in pieces if they are long, and replaced as a
whole if they have nothing in common or the comparison would cost too much. ``web/src/patience.js`` implements exactly the same:
change both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_EDITS: Final = 200
"""Edits after which the path so far is accepted, and the next piece begins after it."""

MAX_DEPTH: Final = 32
"""How often anchors are looked for between anchors. Texts seldom need five; one can be made that needs thousands."""

MAX_STEPS: Final = 1_000_000
"""Comparisons line by line in all, a quarter of a second: texts of a few lines over and over could ask for any number."""


_MANY: Final = 256
"""Lines that are compared at once, which is many times as fast, where the texts begin and end alike."""


_FEW: Final = 64
"""Lines of a change for which it pays to ask whether they have anything in common, before anything else."""


class LineSpan(NamedTuple):
    """Lines ``a0:a1`` of the old text give way to lines ``b0:b1`` of the new one; both count from 0."""

    a0: int
    a1: int
    b0: int
    b1: int


def diff(old: Sequence[object], new: Sequence[object]) -> list[LineSpan]:
    """The spans in which ``new`` differs from ``old``, in order and apart from each other. Items need to be hashable."""
    a, b = list(old), list(new)
    spans: list[LineSpan] = []
    steps = MAX_STEPS
    # A stack and no recursion, and the last gap first: both languages have to spend their steps in the same order.
    todo = [(gap, 0) for gap in _between(a, b, [], LineSpan(0, len(a), 0, len(b)))]
    while todo:
        gap, depth = todo.pop()
        gap = _trim(a, b, gap)
        if gap.a0 == gap.a1 or gap.b0 == gap.b1:
            spans.append(gap)
        elif _is_small_and_new(a, b, gap):
            spans.append(gap)
            steps = max(0, steps - fruitless_steps(gap.a1 - gap.a0, gap.b1 - gap.b0))
        elif depth < MAX_DEPTH and (anchors := _anchors(a, b, gap)):
            todo += [(inner, depth + 1) for inner in _between(a, b, anchors, gap)]
        else:
            way = _shortest(a, b, gap, steps)
            steps = way.steps
            pieces = _between(a, b, way.matches, gap)
            if way.matches and not way.is_whole:
                todo.append((pieces.pop(), depth))
            spans += pieces
    return sorted(spans)


def _trim(a: list[object], b: list[object], gap: LineSpan) -> LineSpan:
    """Without the lines at its ends that both sides have in common."""
    a0, a1, b0, b1 = gap
    while a1 - a0 >= _MANY <= b1 - b0 and a[a0 : a0 + _MANY] == b[b0 : b0 + _MANY]:
        a0, b0 = a0 + _MANY, b0 + _MANY
    while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
        a0, b0 = a0 + 1, b0 + 1
    while a1 - a0 >= _MANY <= b1 - b0 and a[a1 - _MANY : a1] == b[b1 - _MANY : b1]:
        a1, b1 = a1 - _MANY, b1 - _MANY
    while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
        a1, b1 = a1 - 1, b1 - 1
    return LineSpan(a0, a1, b0, b1)


def _between(
    a: list[object], b: list[object], matches: Sequence[tuple[int, int]], gap: LineSpan
) -> list[LineSpan]:
    """What differs between matches, which are given in their order."""
    spans: list[LineSpan] = []
    a0, b0 = gap.a0, gap.b0
    for i, j in (*matches, (gap.a1, gap.b1)):
        if a[a0:i] != b[b0:j]:
            spans.append(LineSpan(a0, i, b0, j))
        a0, b0 = i + 1, j + 1
    return spans


def _anchors(a: list[object], b: list[object], gap: LineSpan) -> list[tuple[int, int]]:
    """The lines that occur once in both texts: the longest sequence of them in the same order."""
    old, new = a[gap.a0 : gap.a1], b[gap.b0 : gap.b1]
    count, count_new = Counter(old), Counter(new)
    where = dict(zip(new, range(gap.b0, gap.b1), strict=True))
    once = enumerate(old, gap.a0)
    return _ascending([(i, where[line]) for i, line in once if count[line] == 1 == count_new.get(line)])


def _ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence of pairs, given in the order of their first elements, whose second elements ascend
    (patience sorting).
    """
    seconds = [j for _, j in pairs]
    if seconds == sorted(seconds):  # as in most texts
        return pairs
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        if not tops or tops[-1] < j:
            before.append(piles[-1] if piles else -1)
            tops.append(j)
            piles.append(index)
        else:
            pile = bisect_left(tops, j)
            before.append(piles[pile - 1] if pile else -1)
            tops[pile], piles[pile] = j, index
    series: list[tuple[int, int]] = []
    at = piles[-1] if piles else -1
    while at >= 0:
        series.append(pairs[at])
        at = before[at]
    series.reverse()
    return series


def _is_small_and_new(a: list[object], b: list[object], gap: LineSpan) -> bool:
    """Whether a few lines have nothing in common with the few that they give way to, as most changed lines."""
    is_small = gap.a1 - gap.a0 + gap.b1 - gap.b0 <= _FEW
    return is_small and set(a[gap.a0 : gap.a1]).isdisjoint(b[gap.b0 : gap.b1])


def fruitless_steps(n: int, m: int) -> int:
    """The steps that ``_shortest`` takes where ``n`` lines and ``m`` lines have nothing in common, and are few. They count as taken, so
    that both languages run out of steps at the same place.
    """
    return (n + m) * (n + m + 1) // 2 + n + 1


class DiffPath(NamedTuple):
    """Matching lines in order; the number of steps left; and whether this is the complete shortest edit script, or
    only what ``MAX_EDITS`` of its edits reach, with nothing known after the last match.
    """

    matches: list[tuple[int, int]]
    steps: int
    is_whole: bool = False


def _shortest(a: list[object], b: list[object], gap: LineSpan, steps: int) -> DiffPath:
    """The shortest edit script within ``MAX_EDITS``; without any match if the steps run out."""
    a0, b0 = gap.a0, gap.b0
    n, m = gap.a1 - a0, gap.b1 - b0
    limit = min(n + m, MAX_EDITS)
    middle = limit + 1
    furthest = [0] * (2 * middle + 1)  # how far one gets on the diagonal k = x - y, at middle + k
    rounds: list[list[int]] = []
    for edits in range(limit + 1):
        rounds.append(furthest[middle - edits - 1 : middle + edits + 2])
        for k in range(-edits, edits + 1, 2):
            left, right = furthest[middle + k - 1], furthest[middle + k + 1]
            x = start = right if k == -edits or (k != edits and left < right) else left + 1
            y = x - k
            while x < n and y < m and a[a0 + x] == b[b0 + y]:
                x, y = x + 1, y + 1
            furthest[middle + k] = x
            steps -= x - start + 1
            if x >= n and y >= m:
                return DiffPath(_trace(rounds, gap, n, m), steps, is_whole=True)
            if steps <= 0:
                return DiffPath([], 0)
    # Behind the end of a text nothing matches, so that an end out there has as many matches as any.
    ends = [(furthest[middle + k], furthest[middle + k] - k) for k in range(-limit, limit + 1, 2)]
    return DiffPath(_trace(rounds, gap, *max(ends, key=sum)), steps)


def _trace(rounds: list[list[int]], gap: LineSpan, x: int, y: int) -> list[tuple[int, int]]:
    """Back from ``x, y`` on the path that ``_shortest`` found, to its matches in their order. ``rounds`` has for each number of edits
    how far one got with one less, from diagonal ``-edits - 1`` on.
    """
    matches: list[tuple[int, int]] = []
    for edits in range(len(rounds) - 1, -1, -1):
        k = x - y
        left, right = rounds[edits][k + edits], rounds[edits][k + edits + 2]
        down = k == -edits or (k != edits and left < right)
        start = right if down else left + 1
        while x > start:
            x, y = x - 1, y - 1
            matches.append((gap.a0 + x, gap.b0 + y))
        x, y = (right, right - k - 1) if down else (left, left - k + 1)
    matches.reverse()
    return matches
