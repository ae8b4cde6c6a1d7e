"""Find the ranges of lines that touch a given range, without comparing with each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import attrgetter

from newel.diff.patience import LineSpan


def touch(a: int, b: int, c: int, d: int) -> bool:
    """Whether the ranges ``a:b`` and ``c:d`` share a line, contain one another, or are the same position between two
    lines.
    """
    return (a < d and b > c) or (a == b == c == d)


class LineRangeSet:
    """Ranges of a text of ``size`` lines, in any order. Answers whether any of them touches a given range.

    Each line has a mark, and so has each position between two lines: ranges touch if they share a mark.
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
    """Maps lines of the old text to the new text of a ``diff``."""

    def __init__(self, spans: Sequence[LineSpan]) -> None:
        self._spans = spans
        self._growth = list(accumulate((growth([span]) for span in spans), initial=0))

    def near(self, a: int, b: int) -> Sequence[LineSpan]:
        """The changes that touch lines ``a:b``, and those directly beside them."""
        first = bisect_left(self._spans, a, key=attrgetter("a1"))
        end = bisect_right(self._spans, b, lo=first, key=attrgetter("a0"))
        return self._spans[first:end]

    def over(self, a: int, b: int) -> Sequence[LineSpan]:
        """The changes that touch lines ``a:b``."""
        return [span for span in self.near(a, b) if touch(a, b, span.a0, span.a1)]

    def shift(self, a: int, over: Sequence[LineSpan]) -> int:
        """By how many lines line ``a`` moves, because of the changes before it that do not touch it."""
        in_front = bisect_right(self._spans, a, key=attrgetter("a1"))
        return self._growth[in_front] - growth(span for span in over if span.a1 <= a)


def growth(spans: Iterable[LineSpan]) -> int:
    """By how many lines the text grows."""
    return sum(span.b1 - span.b0 - (span.a1 - span.a0) for span in spans)
