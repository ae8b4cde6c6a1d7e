"""If these fail, a folder that an agent has worked in stays on the disk for good, or ends the process that is to remove it."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from newel.storage.folder_removal import remove_folder


def make_deep(folder: Path, depth: int) -> None:
    """Folders in one another."""
    place = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("one-below-the-other", dir_fd=place)
        below = os.open("one-below-the-other", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder of this user, who is not root."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    place = Path(tempfile.mkdtemp())
    yield place
    if is_root:
        os.seteuid(0)
    remove_folder(place)


def test_folders_in_one_another_are_removed_however_deep(folder: Path) -> None:
    """More than functions may call each other, with a longer path than the system takes."""
    limit = sys.getrecursionlimit()
    (folder / "job").mkdir()
    make_deep(folder / "job", depth=250)
    sys.setrecursionlimit(240)
    try:
        remove_folder(folder / "job")
    finally:
        sys.setrecursionlimit(limit)
    assert names(folder) == []


def test_closed_folders_are_removed_and_links_not_followed(folder: Path) -> None:
    mine, job = folder / "mine", folder / "job"
    mine.mkdir(mode=0o500)
    (job / "closed" / "within").mkdir(parents=True)
    (job / "closed" / "within" / "file").touch()
    for place in (job, job / "closed", job / "closed" / "within"):
        (place / "link").symlink_to(mine)
    for place in (job / "closed" / "within", job / "closed", job):
        place.chmod(0)
    remove_folder(job)
    assert names(folder) == ["mine"]
    assert stat.S_IMODE(mine.stat().st_mode) == 0o500


def test_what_cannot_be_removed_keeps_nothing_else(folder: Path) -> None:
    """And what is no folder is left alone."""
    remove_folder(folder / "missing")
    (folder / "link").symlink_to(folder)
    remove_folder(folder / "link")
    assert names(folder) == ["link"]
