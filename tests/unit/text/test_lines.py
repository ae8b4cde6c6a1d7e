"""If these fail, lines depend on how their bytes arrive, or an endless line fills the memory."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from newel.text.lines import LineSplitter


@settings(max_examples=60)
@given(st.lists(st.sampled_from([b"{}", b"\n", b"\r\n", b" ", b"\xc3", b"\xa9"]), max_size=20), st.data())
def test_any_split_gives_the_same_lines(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    cuts = data.draw(st.lists(st.integers(0, len(whole))))
    lines = LineSplitter(limit=100)
    found = [line for a, b in pairwise([0, *sorted(cuts), len(whole)]) for line in lines.feed(whole[a:b])]
    assert [*found, lines.flush()] == whole.split(b"\n")
    assert not lines.overflow


def test_an_overlong_line_is_cut_and_reported_and_many_short_ones_are_not() -> None:
    lines = LineSplitter(limit=100)
    assert len(lines.feed(b"x" * 100 + b"\n" + b"y\n" * 1_000)) == 1_001
    lines.feed(b"z" * 60)
    assert not lines.overflow
    lines.feed(b"z" * 60)
    assert lines.overflow
    assert lines.feed(b"z" * 10_000 + b"\nnext\n") == [b"z" * 101, b"next"]
