"""If these fail, what a killed Newel leaves fills the temporary folder, or a running one loses what it works with."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from newel.storage.temporary_folder import PREFIX, sweep_temporary_folders, temporary_folder
from tests.unit.storage.test_folder_removal import make_deep

OWNER = """
import sys
from newel.storage.temporary_folder import temporary_folder
with temporary_folder() as folder:
    open(folder + "/file", "w").close()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for temporary files, also that of other processes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@contextmanager
def owner() -> Generator[tuple[subprocess.Popen[str], Path]]:
    """Another process with such a folder."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())


def test_the_next_start_removes_those_of_killed_processes_only() -> None:
    with owner() as (killed, left), owner() as (_, used), temporary_folder() as own:
        killed.kill()
        killed.wait()
        assert (left / "file").exists()
        sweep_temporary_folders()
        assert not left.exists()
        assert (used / "file").exists()
        assert Path(own).exists()
    assert not used.exists()
    assert not Path(own).exists()


def test_folders_in_one_another_end_neither_a_process_nor_its_start(temporary: Path) -> None:
    """A command in a partial sandbox can make them there, more than functions may call each other."""
    limit = sys.getrecursionlimit()
    left = temporary / f"{PREFIX}left"
    left.mkdir()
    make_deep(left, depth=250)
    try:
        with temporary_folder() as own:
            make_deep(Path(own), depth=250)
            sys.setrecursionlimit(240)
            sweep_temporary_folders()
    finally:
        sys.setrecursionlimit(limit)
    assert list(temporary.iterdir()) == []


def test_no_link_is_followed_and_nothing_else_is_touched(temporary: Path) -> None:
    inside = temporary / "elsewhere"
    inside.mkdir()
    (inside / "kept").touch()
    (temporary / f"{PREFIX}link").symlink_to(inside)
    (temporary / f"{PREFIX}file").touch()
    left = temporary / f"{PREFIX}left"
    left.mkdir()
    (left / "link").symlink_to(inside)
    sweep_temporary_folders()
    assert sorted(path.name for path in temporary.iterdir()) == [
        "elsewhere",
        f"{PREFIX}file",
        f"{PREFIX}link",
    ]
    assert (inside / "kept").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_those_of_another_user_stay(temporary: Path) -> None:
    theirs = temporary / f"{PREFIX}theirs"
    theirs.mkdir()
    os.chown(theirs, 65_534, 65_534)
    sweep_temporary_folders()
    assert theirs.exists()


def test_one_that_is_removed_before_it_is_locked_is_made_again(temporary: Path) -> None:
    """Another process starts at the same moment."""
    sweeper = (
        "from newel.storage.temporary_folder import sweep_temporary_folders as sweep\nwhile True: sweep()"
    )
    with subprocess.Popen([sys.executable, "-c", sweeper]) as other:
        try:
            for _ in range(300):
                with temporary_folder() as folder:
                    (Path(folder) / "file").touch()
        finally:
            other.kill()
    assert list(temporary.iterdir()) == []
