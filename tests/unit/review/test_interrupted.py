"""If these fail, what a killed process was doing is not found by the next one, or found although it was recorded."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from newel.review.interrupted import INDEX, Note, Notes
from newel.workspace.snapshot_tree import Folder, Tree, promised, save


def note(title: str, path: str | None = "f") -> Note:
    return Note(run="r", session="s", title=title, began="", began_ns=0, path=path)


def titles(folder: Path) -> list[str]:
    return [each.title for each, _ in Notes(folder).left("/")]


def index(folder: Path, content: bytes) -> None:
    """An index that knows one file."""
    tree = Tree()
    tree.folders[""] = Folder(None)
    tree.put("f", bytes(36) + content)
    save(folder / INDEX, "/", tree, set())


def _killed(folder: Path, size: int, is_ready: Event) -> None:
    notes = Notes(folder, size=size)
    index(folder, b"1" * 32)
    first = notes.put(note("begun and recorded"))
    notes.put(note("begun first", None))
    index(folder, b"2" * 32)
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
    found = list(Notes(tmp_path).left("/"))
    assert [each.title for each, _ in found] == ["begun first", "begun second"]
    # How files were when the first of them began, whoever has looked since.
    assert {known.states["f"].blob for _, known in found} == {(b"1" * 32).hex()}
    assert promised(tmp_path / INDEX) == {(b"2" * 32).hex()}
    assert titles(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == [INDEX]


def test_a_note_that_was_cut_off_is_of_nothing_that_began(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    notes.put(note("begun"))
    notes.put(note("cut off"))
    notes.close()
    (path,) = tmp_path.iterdir()
    os.truncate(path, path.stat().st_size - 1)
    assert titles(tmp_path) == ["begun"]


def test_a_process_that_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    index(tmp_path, b"1" * 32)
    notes = Notes(tmp_path)
    notes.drop(notes.put(note("done", None)))
    notes.close()
    assert [path.name for path in tmp_path.iterdir()] == [INDEX]
