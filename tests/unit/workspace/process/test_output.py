"""If these fail, a command's output is garbled, or cut without a notice."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.workspace.process.output import Capture, LiveOutput, Output, OutputLimits, Spill, save_spill


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(at)]


@given(st.text(), st.lists(st.integers(min_value=0)))
def test_text_within_the_limit_is_kept_completely_however_it_arrives(text: str, cuts: list[int]) -> None:
    capture = Capture(1_000_000)
    for piece in pieces_of(text.encode(), cuts):
        capture.add(piece)
    assert capture.text("") == text
    assert not capture.truncated


@given(st.text(min_size=30), st.lists(st.integers(min_value=0)), st.integers(min_value=8, max_value=29))
def test_a_long_text_keeps_its_head_and_tail_and_no_half_character(
    text: str, cuts: list[int], limit: int
) -> None:
    capture = Capture(limit)
    data = text.encode()
    for piece in pieces_of(data, cuts):
        capture.add(piece)
    head, _, tail = capture.text("WHERE").partition("\n[… ")
    note, _, tail = tail.partition(" …]\n")
    assert capture.truncated
    assert note == f"{len(data) - 2 * (limit // 2):,} bytes omitted; WHERE"
    assert text.startswith(head)
    assert text.endswith(tail)
    assert limit // 2 - 3 <= len(head.encode()) <= limit // 2
    assert limit // 2 - 3 <= len(tail.encode()) <= limit // 2


@pytest.mark.anyio
@pytest.mark.parametrize("size", [1, 2, 3, 5])
async def test_a_character_in_pieces_is_decoded_correctly(size: int) -> None:
    """Otherwise a reader of the stream sees question marks in every non-English output."""
    text = "aé€𝄞\N{FAMILY}" * 3
    shown: list[str] = []

    async def on_output(piece: str) -> None:
        shown.append(piece)

    live = LiveOutput(on_output)
    data = text.encode()
    for at in range(0, len(data), size):
        live.add("stdout", data[at : at + size])
        await live.flush(at)
    await live.flush(0, final=True)
    assert "".join(shown) == text
    assert "\ufffd" not in "".join(shown)


@pytest.mark.anyio
async def test_the_two_streams_are_decoded_separately_to_their_ends() -> None:
    shown: list[str] = []

    async def on_output(piece: str) -> None:
        shown.append(piece)

    live = LiveOutput(on_output)
    euro = "€".encode()
    live.add("stdout", euro[:1])
    live.add("stderr", b"E")
    live.add("stdout", euro[1:])
    live.add("stderr", euro[:2])
    await live.flush(0, final=True)
    assert "".join(shown) == "E€\ufffd"


@pytest.mark.anyio
async def test_a_flood_is_shown_in_part_and_says_so() -> None:
    shown: list[str] = []

    async def on_output(piece: str) -> None:
        shown.append(piece)

    live = LiveOutput(on_output)
    for _ in range(100):
        live.add("stdout", b"x" * 65_536)
    await live.flush(0)
    assert len(shown[0]) < 70_000
    assert f"{99 * 65_536:,} bytes not shown here" in shown[0]


def test_the_file_has_both_streams_in_order_and_is_private(tmp_path: Path) -> None:
    output = Output(OutputLimits(output=10, spill=1_000, spill_dir=str(tmp_path / "spill")), None)
    output.add("stdout", b"one ")
    output.add("stderr", b"two ")
    assert output.spill.path is None
    output.add("stdout", b"three four five ")
    output.add("stderr", b"six")
    output.close()
    assert output.spill.path is not None
    path = Path(output.spill.path)
    assert path.read_bytes() == b"one two three four five six"
    assert path.stat().st_mode & 0o777 == 0o600
    assert output.stdout.text(output.spill.where).endswith(f"the whole output is in {path} …]\nfive ")


def test_the_file_is_limited_and_describes_its_content(tmp_path: Path) -> None:
    spill = Spill(str(tmp_path), cap=100)
    spill.open()
    for _ in range(30):
        spill.add(b"0123456789")
    spill.close()
    assert spill.path is not None
    assert Path(spill.path).stat().st_size == 100
    assert spill.where == f"the first 100 bytes of all output are in {spill.path}, then the file was full"


def test_an_unwritable_folder_costs_the_file_and_not_the_command(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = Output(OutputLimits(output=10, spill=1_000, spill_dir=str(tmp_path / "file")), None)
    output.add("stdout", b"x" * 100)
    output.close()
    assert output.spill.path is None
    assert "could not be saved: " in output.stdout.text(output.spill.where)


def test_only_outputs_of_last_week_are_removed(tmp_path: Path) -> None:
    """Each is up to 64 MiB: without a limit they would fill the disk."""
    week_ago = time.time() - 8 * 24 * 60 * 60
    for name in ("newel-output-old.txt", "newel-output-theirs.txt", "notes.txt", "newel-output-x.md"):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (week_ago, week_ago))
    if os.geteuid() == 0:
        os.chown(tmp_path / "newel-output-theirs.txt", 65534, 65534)
    else:
        (tmp_path / "newel-output-theirs.txt").unlink()
    (tmp_path / "newel-output-new.txt").write_text("x")
    (tmp_path / "newel-output-link.txt").symlink_to("notes.txt")
    os.utime(tmp_path / "newel-output-link.txt", (week_ago, week_ago), follow_symlinks=False)
    before = {path.name for path in tmp_path.iterdir()}
    spill = Spill(str(tmp_path), cap=100)
    spill.open()
    spill.close()
    assert spill.path is not None
    assert {path.name for path in tmp_path.iterdir()} == before - {"newel-output-old.txt"} | {
        Path(spill.path).name
    }


def test_the_oldest_outputs_are_removed_when_the_total_is_too_large(tmp_path: Path) -> None:
    """Otherwise a loop that prints gigabytes fills the disk within a day."""
    paths = [tmp_path / f"newel-output-{number}.txt" for number in range(4)]
    for age, path in enumerate(paths):
        with path.open("wb") as file:
            file.truncate(200 * 1024 * 1024)  # of no blocks
        os.utime(path, (time.time() - 1_000 + age, time.time() - 1_000 + age))
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    save_spill("new", str(tmp_path))
    assert [path.exists() for path in paths] == [False, False, True, True]
    assert other.exists()
