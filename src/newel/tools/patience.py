"""Which lines differ: patience diff, and within its gaps the shortest edit script as far as that is cheap.

Lines that occur once on both sides are anchors, as far as they stand in the same order; between two anchors the same is
tried again. What has no such lines is compared by Myers' algorithm (An O(ND) Difference Algorithm, 1986), and replaced as
a whole where more than ``MAX_EDITS`` lines differ. ``web/src/patience.js`` does exactly the same: change both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_EDITS: Final = 200
"""Lines that may differ between two anchors before they are no longer compared one by one."""


class Span(NamedTuple):
    """Lines ``a0:a1`` of the old text give way to lines ``b0:b1`` of the new one; both count from 0."""

    a0: int
    a1: int
    b0: int
    b1: int


def diff(a: Sequence[object], b: Sequence[object]) -> list[Span]:
    """The spans in which ``b`` differs from ``a``, in order and apart from each other. Items need to be hashable."""
    matches: list[tuple[int, int]] = []
    # A stack and no recursion: texts may nest deeper than Python does. What is pushed last is compared first.
    todo = [(0, len(a), 0, len(b))]
    while todo:
        a0, a1, b0, b1 = todo.pop()
        while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
            matches.append((a0, b0))
            a0, b0 = a0 + 1, b0 + 1
        while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
            a1, b1 = a1 - 1, b1 - 1
            matches.append((a1, b1))
        if a0 == a1 or b0 == b1:
            continue
        anchors = _anchors(a, b, Span(a0, a1, b0, b1))
        if anchors:
            for i, j in anchors:
                todo.append((a0, i, b0, j))
                a0, b0 = i, j
            todo.append((a0, a1, b0, b1))
        else:
            matches += _shortest(a, b, Span(a0, a1, b0, b1))
    return _spans(sorted(matches), len(a), len(b))


def _anchors(a: Sequence[object], b: Sequence[object], gap: Span) -> list[tuple[int, int]]:
    """The lines that occur once in both, the longest series of them whose order is the same."""
    once_a, once_b = _once(a, gap.a0, gap.a1), _once(b, gap.b0, gap.b1)
    pairs = [(i, j) for line, i in once_a.items() if (j := once_b.get(line)) is not None]
    return _ascending(pairs)


def _once(lines: Sequence[object], start: int, end: int) -> dict[object, int]:
    """Where the lines stand that occur once, in their order."""
    seen: dict[object, int] = {}
    twice: set[object] = set()
    for index in range(start, end):
        line = lines[index]
        if line in seen:
            twice.add(line)
        else:
            seen[line] = index
    for line in twice:
        del seen[line]
    return seen


def _ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest series of pairs, given in the order of their first, whose second ascends (patience sorting)."""
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        pile = bisect_left(tops, j)
        before.append(piles[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(j)
            piles.append(index)
        else:
            tops[pile], piles[pile] = j, index
    series: list[tuple[int, int]] = []
    at = piles[-1] if piles else -1
    while at >= 0:
        series.append(pairs[at])
        at = before[at]
    series.reverse()
    return series


def _shortest(a: Sequence[object], b: Sequence[object], gap: Span) -> list[tuple[int, int]]:
    """The matches of the shortest edit script, none where it has more than ``MAX_EDITS`` edits."""
    a0, b0 = gap.a0, gap.b0
    n, m = gap.a1 - a0, gap.b1 - b0
    furthest = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(n + m, MAX_EDITS) + 1):
        history.append(dict(furthest))
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and furthest[k - 1] < furthest[k + 1])
            x = furthest[k + 1] if down else furthest[k - 1] + 1
            y = x - k
            while x < n and y < m and a[a0 + x] == b[b0 + y]:
                x, y = x + 1, y + 1
            furthest[k] = x
            if x >= n and y >= m:
                return _trace(history, n, m, a0, b0)
    return []


def _trace(history: list[dict[int, int]], x: int, y: int, a0: int, b0: int) -> list[tuple[int, int]]:
    """Back along the path that ``_shortest`` found, to its matches."""
    matches: list[tuple[int, int]] = []
    for edits in range(len(history) - 1, -1, -1):
        furthest = history[edits]
        k = x - y
        down = k == -edits or (k != edits and furthest[k - 1] < furthest[k + 1])
        from_x = furthest[k + 1] if down else furthest[k - 1]
        while x > (from_x if down else from_x + 1):
            x, y = x - 1, y - 1
            matches.append((a0 + x, b0 + y))
        x, y = from_x, from_x - (k + 1 if down else k - 1)
    return matches


def _spans(matches: list[tuple[int, int]], n: int, m: int) -> list[Span]:
    """What lies between the matches."""
    spans: list[Span] = []
    a0 = b0 = 0
    for i, j in [*matches, (n, m)]:
        if i > a0 or j > b0:
            spans.append(Span(a0, i, b0, j))
        a0, b0 = i + 1, j + 1
    return spans
