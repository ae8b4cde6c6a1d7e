"""If these fail, what a killed process was doing is not found by the next one, or found although it was recorded."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from newel.review.tracking.write_ahead_log import LogRecord, WriteAheadLog
from newel.workspace.snapshots.index import pack_all
from newel.workspace.snapshots.tree import FileSnapshot, FileTree, FolderState


def note(title: str, path: str | None = "f") -> LogRecord:
    return LogRecord(run="r", session="s", title=title, began="", began_ns=0, path=path)


def titles(folder: Path) -> list[str]:
    return [each.title for each, _ in WriteAheadLog(folder).left("/")]


def known(name: str, content: bytes) -> bytes:
    """What knows one file."""
    tree = FileTree()
    tree.folders[""] = FolderState(None)
    tree.put(name, bytes(36) + content)
    return pack_all("/", tree, set())


def _killed(folder: Path, size: int, is_ready: Event) -> None:
    notes = WriteAheadLog(folder, size=size)
    notes.know(known("f", b"1" * 32))
    first = notes.put(note("begun and recorded"))
    notes.put(note("begun first", None))
    notes.know(known("g", b"2" * 32))
    for number in range(50):
        notes.drop(notes.put(note(f"recorded {number}", None)))
    notes.put(note("begun second", None))
    notes.drop(first)
    is_ready.set()
    signal.pause()


@pytest.mark.parametrize("size", [1 << 20, 500])
def test_what_a_killed_process_had_begun_is_left_and_nothing_else(tmp_path: Path, size: int) -> None:
    """Also where its notes went on in a new file, as the old one had become long."""
    context = multiprocessing.get_context("spawn")
    is_ready = context.Event()
    child = context.Process(target=_killed, args=(tmp_path, size, is_ready))
    child.start()
    assert is_ready.wait(30)
    assert titles(tmp_path) == []  # it lives
    assert sum(path.stat().st_size for path in tmp_path.glob("*.running")) < max(size + 1000, 20_000)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join(30)
    found = list(WriteAheadLog(tmp_path).left("/"))
    assert [each.title for each, _ in found] == ["begun first", "begun second"]
    before = {"f": FileSnapshot((b"1" * 32).hex(), 0), "g": FileSnapshot((b"2" * 32).hex(), 0)}
    assert all(known.states == before for _, known in found)
    assert titles(tmp_path) == []
    assert not list(tmp_path.iterdir())


def test_a_note_that_was_cut_off_is_of_nothing_that_began(tmp_path: Path) -> None:
    notes = WriteAheadLog(tmp_path)
    notes.put(note("begun"))
    notes.put(note("cut off"))
    notes.close()
    (path,) = tmp_path.iterdir()
    os.truncate(path, path.stat().st_size - 1)
    assert titles(tmp_path) == ["begun"]


def test_a_process_that_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    notes = WriteAheadLog(tmp_path)
    notes.know(known("f", b"1" * 32))
    notes.drop(notes.put(note("done", None)))
    notes.close()
    assert not list(tmp_path.iterdir())


def test_what_is_known_is_there_whole_however_often_it_is_added_to(tmp_path: Path) -> None:
    """And takes no more room than a few times what it tells of."""
    notes = WriteAheadLog(tmp_path)
    notes.put(note("begun", None))
    contents = [b"%032d" % number for number in range(20_000)]
    for content in contents:
        notes.know(known("f", content))
    (path,) = tmp_path.glob("*.known")
    size = path.stat().st_size
    assert len(contents) * len(known("f", contents[0])) > 2 * size
    notes.know(known("g", contents[0]))
    os.truncate(path, path.stat().st_size - 1)  # it was killed before that command began
    notes.close()
    [(_, left)] = WriteAheadLog(tmp_path).left("/")
    assert left.states == {"f": FileSnapshot(contents[-1].hex(), 0)}
