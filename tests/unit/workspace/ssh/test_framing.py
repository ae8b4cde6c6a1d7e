"""If these fail, framing shows up in the output of a remote program, or output is lost."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from newel.workspace.ssh.process import NOISE, Frame

NONCE = b"0123456789abcdef0123456789abcdef"
HEAD = b"\x1e" + NONCE + b"\x1e"
END = b"\x1e" + NONCE + b" 007\x1e"

outputs = st.lists(
    st.one_of(
        st.binary(max_size=20), st.sampled_from([b"\x1e", HEAD, END[:12], END[:-5], END[:-1].swapcase()])
    )
).map(b"".join)


@settings(max_examples=100)
@given(noise=st.binary(max_size=50), output=outputs, cuts=st.lists(st.integers(0, 400), max_size=8))
def test_output_is_decoded_the_same_however_it_is_cut(noise: bytes, output: bytes, cuts: list[int]) -> None:
    """Also output that resembles the end of the frame."""
    frame = Frame(NONCE)
    whole = noise + HEAD + output + END
    places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    pieces = [whole[start:end] for start, end in pairwise(places)]
    assert b"".join(map(frame.add, pieces)) == output
    assert frame.code == 7


def test_output_is_withheld_only_while_it_may_be_the_end() -> None:
    frame = Frame(NONCE)
    assert frame.add(HEAD + b"one\x1e") == b"one"
    assert frame.add(b"two") == b"\x1etwo"


def test_output_after_the_end_marker_still_counts() -> None:
    """A background process of the program prints as long as we read."""
    frame = Frame(NONCE)
    assert frame.add(HEAD + b"a" + END + b"b") == b"ab"
    assert frame.add(END) == END


def test_only_the_end_of_endless_noise_is_kept() -> None:
    frame = Frame(NONCE)
    for _ in range(100):
        assert frame.add(b"noise " * 1_000) == b""
    assert len(frame.noise) == NOISE
