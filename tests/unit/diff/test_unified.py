"""If these fail, users approve a change other than the one that is made."""

from __future__ import annotations

import difflib
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.diff.unified import DiffBlock, compare, split_lines, unified_diff
from tests.requirements import require_program

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"d\n", b"\n"]), max_size=25)
TEXTS = st.tuples(LINES, st.sampled_from([b"", b"x", b"a"])).map(lambda parts: b"".join(parts[0]) + parts[1])


def applied(old: list[bytes], blocks: list[DiffBlock[bytes]]) -> bytes:
    pieces: list[bytes] = []
    done = 0
    for block in blocks:
        pieces += [*old[done : block.start], *block.new]
        done = block.end
    return b"".join([*pieces, *old[done:]])


@given(TEXTS, TEXTS)
def test_applying_the_blocks_gives_the_new_text(old: bytes, new: bytes) -> None:
    blocks = compare(split_lines(old), split_lines(new))
    assert applied(split_lines(old), blocks) == new
    assert all(one.end <= other.start for one, other in pairwise(blocks))


@given(st.binary(max_size=50))
def test_joined_lines_are_the_text(data: bytes) -> None:
    lines = split_lines(data)
    assert b"".join(lines) == data
    assert all(line.endswith(b"\n") for line in lines[:-1])
    assert all(line.count(b"\n") <= 1 for line in lines)


@given(old=TEXTS, new=TEXTS)
def test_it_has_the_format_of_unified_diffs(old: bytes, new: bytes) -> None:
    """Compared with the standard library, which computes the hunks and their numbers independently."""
    a, b = split_lines(old), split_lines(new)
    matcher = difflib.SequenceMatcher(None, a, b)
    blocks = [DiffBlock(a1, a2, b[b1:b2]) for tag, a1, a2, b1, b2 in matcher.get_opcodes() if tag != "equal"]
    ours = unified_diff("f", a, blocks).replace("\n\\ No newline at end of file", "")
    theirs = difflib.diff_bytes(difflib.unified_diff, a, b, b"f", b"f", lineterm=b"\n")
    assert ours.split("\n") == (b"".join(end_with_newline(line) for line in theirs).decode()).split("\n")


def end_with_newline(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"one\ntwo\nthree\n", b"one\n2\nthree\n"),
        (b"one\ntwo", b"one\ntwo\n"),
        (b"one\ntwo\n", b"one\ntwo"),
        (b"a\r\nb\r\n", b"a\r\nc\r\n"),
        (b"x\n", b""),
    ],
)
def test_patch_accepts_it(tmp_path: Path, old: bytes, new: bytes) -> None:
    """A user may carry a shown diff to another checkout, where git reads it."""
    (tmp_path / "f").write_bytes(old)
    text = unified_diff("f", split_lines(old), compare(split_lines(old), split_lines(new)))
    subprocess.run(
        [require_program("git"), "apply", "-p0", "--allow-empty", "-"],
        input=text.encode(),
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    assert (tmp_path / "f").read_bytes() == new


def test_a_very_large_change_is_shown_as_one_block() -> None:
    """Comparing it line by line could take minutes."""
    old = [b"same\n", *(b"%d\n" % number for number in range(50_000)), b"end\n"]
    new = [b"same\n", *(b"x%d\n" % number for number in range(50_000)), b"end\n"]
    assert compare(old, new) == [DiffBlock(1, 50_001, new[1:-1])]
