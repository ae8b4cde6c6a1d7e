"""Which of many ranges of lines touch a given one, without looking at each of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import attrgetter

from newel.diff.patience import LineSpan


def touch(a: int, b: int, c: int, d: int) -> bool:
    """Whether the ranges ``a:b`` and ``c:d`` have a line in common, or one lies within the other, or both are the same
    place between two lines.
    """
    return (a < d and b > c) or (a == b == c == d)


class LineRangeSet:
    """Ranges of a text of ``size`` lines, in any order, to be asked whether one of them is touched.

    Each line is a mark, and so is each place between two of them: ranges touch where they have a mark in common.
    """

    def __init__(self, size: int, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._marks = bytearray(2 * size + 1)
        for a, b in ranges:
            self.add(a, b)

    def add(self, a: int, b: int) -> None:
        marks = _marks_of(a, b)
        self._marks[marks] = b"\1" * (marks.stop - marks.start)

    def touch(self, a: int, b: int) -> bool:
        marks = _marks_of(a, b)
        return self._marks.find(1, marks.start, marks.stop) >= 0


def _marks_of(a: int, b: int) -> slice:
    return slice(2 * a + 1, 2 * b) if a < b else slice(2 * a, 2 * a + 1)


class LineMapping:
    """What ``diff`` found, to be asked what it means to lines of the old text."""

    def __init__(self, spans: Sequence[LineSpan]) -> None:
        self._spans = spans
        self._growth = list(accumulate((growth([span]) for span in spans), initial=0))

    def over(self, a: int, b: int) -> Sequence[LineSpan]:
        """Those that touch lines ``a:b``."""
        first = bisect_left(self._spans, a, key=attrgetter("a1"))
        end = bisect_right(self._spans, b, lo=first, key=attrgetter("a0"))
        return [span for span in self._spans[first:end] if touch(a, b, span.a0, span.a1)]

    def shift(self, a: int, over: Sequence[LineSpan]) -> int:
        """By how much line ``a`` moves, for those in front of it that are not ``over`` it."""
        in_front = bisect_right(self._spans, a, key=attrgetter("a1"))
        return self._growth[in_front] - growth(span for span in over if span.a1 <= a)


def growth(spans: Iterable[LineSpan]) -> int:
    """By how many lines a text grows."""
    return sum(span.b1 - span.b0 - (span.a1 - span.a0) for span in spans)
