"""Folders for what is temporary, such as sockets: removed with their process, or by the next start of Newel if it was killed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from newel.storage.file_lock import lock
from newel.storage.folder_removal import remove_folder

PREFIX: Final = "newel-run-"


@contextmanager
def temporary_folder() -> Generator[str]:
    """A private folder, by its real path, with a lock that tells it from a leftover. Raises ``OSError``."""
    folder, descriptor = _make()
    try:
        yield folder
    finally:
        remove_folder(Path(folder))
        os.close(descriptor)


def sweep_temporary_folders() -> None:
    """Remove those of this user's killed processes: a lock is gone with its process. Does not raise."""
    with contextlib.suppress(OSError):
        place = tempfile.gettempdir()
        for name in os.listdir(place):  # noqa: PTH208 — at each start, and few of them are Newel's
            if name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    _remove_unless_locked(Path(place, name))


def _make() -> tuple[str, int]:
    while True:
        folder = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
        with contextlib.suppress(FileNotFoundError):  # it was removed before it was locked
            descriptor = _open(folder)
            with contextlib.suppress(OSError):  # a file system without locks, on which nothing is a leftover
                lock(descriptor, shared=True)
            if Path(folder).exists():
                return folder, descriptor
            os.close(descriptor)


def _remove_unless_locked(folder: Path) -> None:
    descriptor = _open(folder)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            lock(descriptor, wait=False)
            remove_folder(folder)
    finally:
        os.close(descriptor)


def _open(folder: str | Path) -> int:
    """Raises ``OSError`` also for a link."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
