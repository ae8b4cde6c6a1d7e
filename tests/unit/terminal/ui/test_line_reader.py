"""If these fail, a request or a prompt that is piped in gets lost, cut or glued to another."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from newel.terminal.ui.line_reader import LineReader


async def lines_of(reader: LineReader) -> list[str]:
    lines: list[str] = []
    while (line := await reader.next()) is not None:
        lines.append(line)
    return lines


def from_pipe(pieces: Sequence[bytes]) -> list[str]:
    """The lines read while the pieces arrive one by one."""

    async def both() -> list[str]:
        inside, outside = os.pipe()
        found: list[str] = []

        async def write() -> None:
            for piece in pieces:
                os.write(outside, piece)
                await checkpoint()
            os.close(outside)

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            found = await lines_of(LineReader(inside))
        os.close(inside)
        return found

    return anyio.run(both)


@given(st.binary(max_size=60).filter(lambda data: b"\r" not in data), st.integers(1, 9))
def test_a_pipe_gives_its_lines_however_it_is_cut(data: bytes, cut: int) -> None:
    expected = [line.decode(errors="replace") for line in data.split(b"\n")]
    if not expected[-1]:
        expected.pop()
    assert from_pipe([data[at : at + cut] for at in range(0, len(data), cut)]) == expected


def test_windows_line_ends_and_an_unterminated_last_line() -> None:
    assert from_pipe([b"a\r\n\r\nb\xff"]) == ["a", "", "b\N{REPLACEMENT CHARACTER}"]


@pytest.mark.anyio
async def test_files_and_the_null_device_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"one\ntwo\n")
    for name, lines in ((path, ["one", "two"]), (os.devnull, [])):
        source = os.open(name, os.O_RDONLY)
        assert await lines_of(LineReader(source)) == lines
        os.close(source)


@pytest.mark.anyio
async def test_an_overlong_line_is_skipped_and_the_next_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"x" * 500_000 + b"\nnext\n")
    source = os.open(path, os.O_RDONLY)
    reader = LineReader(source, limit=10)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        await reader.next()
    assert await reader.next() == "next"
    os.close(source)
