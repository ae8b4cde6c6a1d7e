"""Lines are the same however their bytes arrive, and none fills the memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newel.agent.errors import BadResponse
from newel.providers.http.ndjson import NdjsonParser


@settings(max_examples=60)
@given(st.lists(st.sampled_from([b"{}", b"\n", b"\r\n", b" ", b'"\xc3', b"\xa9"]), max_size=20), st.data())
def test_any_split_gives_the_same_lines(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    at = data.draw(st.integers(0, len(whole)))
    lines = NdjsonParser()
    found = lines.feed(whole[:at]) + lines.feed(whole[at:]) + lines.close()
    assert found == [line.strip() for line in whole.split(b"\n") if line.strip()]


def test_a_line_that_is_too_long_is_refused_and_many_short_ones_are_not() -> None:
    lines = NdjsonParser(longest=100)
    assert len(lines.feed(b"x" * 99 + b"\n" + b"y\n" * 1_000)) == 1_001
    lines.feed(b"z" * 60)
    with pytest.raises(BadResponse):
        lines.feed(b"z" * 60)
