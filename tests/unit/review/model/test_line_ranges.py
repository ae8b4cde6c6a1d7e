"""If these fail, overlapping hunks count as independent, and undoing one takes another's edit along."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from newel.diff.patience import diff
from newel.review.model.line_ranges import LineMapping, LineRangeSet, growth, touch

RANGES = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda ab: (min(ab), max(ab)))
TEXTS = st.lists(st.sampled_from("abc"), max_size=8)


@given(st.lists(RANGES, max_size=4), RANGES)
def test_marks_find_the_touched_ranges_among_many(
    ranges: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    assert LineRangeSet(8, ranges).touch(*asked) == any(touch(*asked, *each) for each in ranges)


@given(TEXTS, TEXTS, RANGES)
def test_lines_move_with_changes_before_them(old: list[str], new: list[str], asked: tuple[int, int]) -> None:
    spans = diff(old, new)
    over = [span for span in spans if touch(*asked, span.a0, span.a1)]
    in_front = [span for span in spans if span.a1 <= asked[0] and span not in over]
    changes = LineMapping(spans)
    assert changes.over(*asked) == over
    assert changes.shift(asked[0], over) == growth(in_front)
