"""A project's directories and files, opened step by step so that no link leads out of the project meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final, NamedTuple

from newel.workspace.snapshot_tree import signature

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES: Final = 3

GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What the system answers where a directory or file was and is no longer, or a link is now."""


class Reading(NamedTuple):
    """A file's bytes, None if it is longer than allowed or not a regular file; ``torn``: it was written meanwhile."""

    data: bytes | None
    found: os.stat_result
    torn: bool


def open_root(root: str) -> int:
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def open_folder(root: int, path: str) -> int:
    """A descriptor of the directory ``path`` below the directory ``root``. Raises ``OSError``."""
    here = os.open(".", _FOLDER, dir_fd=root)
    for name in path.split("/") if path else ():
        try:
            below = os.open(name, _FOLDER, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


class Reader:
    """Reads files below an open directory, quickest those of one directory one after the other. To be closed."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._path = ""
        self._folder = -1

    def read(self, path: str, limit: int) -> Reading:
        """A file's bytes as they were at one moment, if its writers let that be. Raises ``OSError``."""
        folder, _, name = path.rpartition("/")
        if self._folder < 0 or folder != self._path:
            self.close()
            self._folder, self._path = open_folder(self._root, folder), folder
        descriptor = os.open(name, _FILE, dir_fd=self._folder)
        try:
            return _read(descriptor, limit)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1


def _read(descriptor: int, limit: int) -> Reading:
    found = os.fstat(descriptor)
    data = b""
    for _ in range(_TRIES):
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            return Reading(None, found, torn=False)
        data = _bytes(descriptor, found.st_size, limit)
        again = os.fstat(descriptor)
        if signature(again) == signature(found) and len(data) == found.st_size:
            return Reading(data, found, torn=False)
        found = again
    return Reading(data if len(data) <= limit else None, found, torn=True)


def _bytes(descriptor: int, size: int, limit: int) -> bytes:
    """To the end, but at most one byte more than ``limit``."""
    pieces: list[bytes] = []
    offset = 0
    while offset <= limit:
        wanted = min(max(size - offset, 0) + 1, limit + 1 - offset)
        piece = os.pread(descriptor, wanted, offset)
        pieces.append(piece)
        offset += len(piece)
        if len(piece) < wanted:  # of a regular file: its end
            break
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
