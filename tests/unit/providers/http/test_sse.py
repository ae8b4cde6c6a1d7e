"""If these fail, an event stream is misread when the network splits it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.errors import BadResponse
from newel.providers.http.sse import EventParser, ServerEvent

PIECES = st.sampled_from(
    [
        b"data:",
        b"data: ",
        b"event: delta",
        b"id: 7",
        b": ping",
        b"x",
        "é🙂".encode(),
        b"\xff",
        b"\n",
        b"\r",
        b"\r\n",
    ]
)
STREAMS = st.lists(PIECES, max_size=40).map(b"".join)


def read(pieces: list[bytes]) -> list[ServerEvent]:
    parser = EventParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.close()


@given(stream=STREAMS, cuts=st.lists(st.integers(0, 200), max_size=8))
def test_any_cut_of_the_bytes_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    """Otherwise an answer depends on how TCP delivers it."""
    places = [0, *sorted(cuts), len(stream)]
    pieces = [stream[start:end] for start, end in itertools.pairwise(places)]
    assert read(pieces) == read([stream]) == read([stream[at : at + 1] for at in range(len(stream))])


def test_a_byte_order_mark_costs_no_event() -> None:
    """Some servers begin with one, and the standard allows it. The first event may say what a prompt has cost."""
    assert read([b"\xef\xbb", b"\xbfdata: 1\n\ndata: \xef\xbb\xbf2\n\n"]) == [
        ServerEvent(b"1"),
        ServerEvent(b"\xef\xbb\xbf2"),
    ]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_and_comment_is_parsed(end: bytes) -> None:
    """Otherwise the answers of some servers and gateways would be empty."""
    lines = [
        b": ping",
        b"",
        b"event: delta",
        b"data: one",
        b"data:two",
        b"",
        b"data: {}",
        b"retry: 3",
        b"",
        b"",
    ]
    assert read([end.join(lines)]) == [ServerEvent(b"one\ntwo", "delta"), ServerEvent(b"{}")]


def test_a_last_event_without_its_empty_line_counts() -> None:
    """Otherwise the end of an answer would be lost with servers that forget it."""
    assert read([b"data: a\n\ndata: [DONE]"]) == [ServerEvent(b"a"), ServerEvent(b"[DONE]")]


@pytest.mark.parametrize("junk", [b"data: " + b"x" * 999, b"x" * 999, b"data: xxxxxxx\n" * 200])
def test_an_endless_event_is_refused(junk: bytes) -> None:
    """Otherwise a server could fill the memory with one line."""
    parser = EventParser(max_event=900)
    pieces = [junk[at : at + 100] for at in range(0, len(junk), 100)]
    with pytest.raises(BadResponse, match="refused"):
        [parser.feed(piece) for piece in pieces]
