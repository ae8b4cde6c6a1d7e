"""If these fail, messages split by a pipe are lost, or junk fills the memory."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.mcp import framing
from newel.mcp.framing import MAX_TAIL_BYTES, JsonLineFramer, LimitExceeded, StderrTail, parse


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_lines_are_the_same_however_the_bytes_are_cut(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader = JsonLineFramer()
    found = [line for a, b in pairwise(edges) for line in reader.feed(data[a:b])]
    assert found == data.split(b"\n")[:-1]


def test_an_endless_line_is_refused_in_bounded_memory() -> None:
    reader = JsonLineFramer()
    for _ in range(framing.MAX_MESSAGE // 2**20):
        reader.feed(b"x" * 2**20)
    with pytest.raises(LimitExceeded, match="16 MiB"):
        reader.feed(b"x")


def test_junk_between_messages_is_tolerated_and_a_flood_is_not() -> None:
    reader = JsonLineFramer()
    for _ in range(5):
        for _ in range(framing.MAX_JUNK_LINES):
            reader.junk(b"log")
        reader.message()
    for _ in range(framing.MAX_JUNK_LINES):
        reader.junk(b"log")
    with pytest.raises(LimitExceeded, match="not MCP"):
        reader.junk(b"log")


@pytest.mark.parametrize(
    "line", [b"", b"hello", b"{}", b"[1]", b'{"jsonrpc": "2.0"}', b"\xff", b"[" * 100_000, b"1" * 5000]
)
def test_an_invalid_message_is_junk(line: bytes) -> None:
    assert parse(line) is None


def test_a_message_with_a_carriage_return_is_valid() -> None:
    assert parse(b'{"jsonrpc":"2.0","method":"m"}\r') is not None


@given(st.lists(st.binary(max_size=3000), max_size=10))
def test_the_last_output_is_kept_in_bounded_memory(chunks: list[bytes]) -> None:
    tail = StderrTail()
    for chunk in chunks:
        tail.add(chunk)
    whole = b"".join(chunks)
    assert len(tail.text) <= MAX_TAIL_BYTES
    assert whole.decode(errors="replace").endswith(tail.text) or len(whole) >= MAX_TAIL_BYTES
