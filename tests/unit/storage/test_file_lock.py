"""If these fail, locks outlive their holder, or a refusal does not name it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from newel.storage.file_lock import (
    LockHolder,
    describe_holder,
    lock,
    lock_unless_held,
    read_holder,
    unlock,
    write_holder,
)


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


def test_a_lock_is_exclusive_until_its_file_is_closed(tmp_path: Path) -> None:
    first, second = opened(tmp_path / "file"), opened(tmp_path / "file")
    lock(first)
    with pytest.raises(BlockingIOError):
        lock(second, wait=False)
    with pytest.raises(BlockingIOError):
        lock(second, wait=False, shared=True)
    os.close(first)
    lock(second, wait=False)
    os.close(second)


def test_shared_locks_do_not_exclude_each_other(tmp_path: Path) -> None:
    first, second = opened(tmp_path / "file"), opened(tmp_path / "file")
    lock(first, shared=True)
    lock(second, wait=False, shared=True)
    with pytest.raises(BlockingIOError):
        lock(second, wait=False)
    os.close(first)
    os.close(second)


def test_a_child_that_inherits_the_file_does_not_keep_the_lock(tmp_path: Path) -> None:
    first, second = opened(tmp_path / "file"), opened(tmp_path / "file")
    lock(first)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[first])
    unlock(first)
    os.close(first)
    lock(second, wait=False)
    os.close(second)
    child.communicate()


def inherited(file: int, seconds: float) -> subprocess.Popen[bytes]:
    """A child that keeps a file and its lock longer than its parent."""
    return subprocess.Popen(["sleep", str(seconds)], pass_fds=[file])


def ended_holder() -> LockHolder:
    child = subprocess.Popen(["true"])
    child.wait()
    return LockHolder(child.pid, datetime.now(UTC))


def test_a_lock_left_by_a_dead_process_to_a_child_is_awaited(tmp_path: Path) -> None:
    """Otherwise Newel refuses to start right after a kill: a command that it was starting has its files for a moment."""
    first, second = opened(tmp_path / "file"), opened(tmp_path / "file")
    lock(first)
    with inherited(first, 0.3):
        os.close(first)
        lock_unless_held(second, ended_holder)
    with pytest.raises(BlockingIOError):
        lock(opened(tmp_path / "file"), wait=False)
    os.close(second)


def test_a_lock_that_a_process_holds_is_refused_at_once(tmp_path: Path) -> None:
    first, second = opened(tmp_path / "file"), opened(tmp_path / "file")
    lock(first)
    with inherited(first, 600) as child:
        os.close(first)
        started = time.monotonic()
        with pytest.raises(BlockingIOError):
            lock_unless_held(second, lambda: LockHolder(child.pid, datetime.now(UTC)))
        assert time.monotonic() - started < 10  # the process holds it for 600 s
        child.kill()
    os.close(second)


def test_a_holder_is_described_by_its_note(tmp_path: Path) -> None:
    file = opened(tmp_path / "file")
    assert describe_holder(read_holder(file)) == "another Newel"
    write_holder(file, "http://127.0.0.1:1")
    holder = read_holder(file)
    assert holder is not None
    assert holder.is_running
    assert describe_holder(holder).startswith("this process at http://127.0.0.1:1 (since 2")
    os.close(file)


@pytest.mark.parametrize(
    ("note", "is_running"),
    [
        (b'{"pid":999999999999,"since":"2026-01-31T09:30:00Z"}', False),
        (b'{"pid":1,"since":"2026-01-31T09:30:00.125Z"}', True),
    ],
)
def test_the_note_of_another_process_says_whether_it_runs(
    tmp_path: Path, note: bytes, is_running: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(note)
    file = opened(path)
    holder = read_holder(file)
    assert holder is not None
    assert holder.is_running is is_running
    assert describe_holder(holder).startswith("another Newel (pid ")
    os.close(file)


@pytest.mark.parametrize("note", [b"", b"{", b'{"pid":"x"}', b"\xff\xfe"])
def test_a_damaged_note_is_ignored(tmp_path: Path, note: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(note)
    file = opened(path)
    assert read_holder(file) is None
    os.close(file)
