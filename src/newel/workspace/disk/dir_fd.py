"""A file's folder as an open descriptor: operations apply to this folder, wherever its path leads later.

The folder is opened name by name, each relative to the descriptor before. So no link can be inserted between a
check and the operation, and the file that was checked is the one that is replaced.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Generator
from pathlib import PurePath
from typing import Final

import msgspec

from newel.storage.file_lock import lock
from newel.workspace.port import ABSENT, leads_elsewhere

_SEARCH: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""Passing through a folder needs no permission to list it, on systems that distinguish this."""

_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_MARK: Final = ".newel-"
_TEMPORARY_NAME: Final = re.escape(_MARK) + r"[0-9a-f]{16}\.tmp"


def is_temporary_file(name: str) -> bool:
    """Whether a name belongs to a temporary file of a write, in progress or left by a killed process."""
    return name.startswith(_MARK) and re.fullmatch(_TEMPORARY_NAME, name) is not None


def temporary_name() -> str:
    """The name of a temporary file for a write. Not derived from the file's own name, which may be as long as
    allowed.
    """
    return f"{_MARK}{os.urandom(8).hex()}.tmp"


class FilePlace(msgspec.Struct, frozen=True):
    """A name in an open folder. ``resolved``: links are not followed. Methods raise ``OSError``."""

    folder: int
    name: str
    path: str
    resolved: bool

    def stat(self) -> os.stat_result | None:
        """The file with this name, or None. Raises ``StaleFile`` for a link that is not followed."""
        try:
            status = os.stat(self.name, dir_fd=self.folder, follow_symlinks=not self.resolved)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            raise leads_elsewhere(self.path)
        return status

    @contextlib.contextmanager
    def open(self) -> Generator[int]:
        """A descriptor for reading; never blocks on a pipe."""
        descriptor = os.open(self.name, _READ | (os.O_NOFOLLOW if self.resolved else 0), dir_fd=self.folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def digest(self) -> str:
        """The SHA-256 of the file, ``ABSENT`` for none, and empty for anything but a regular file."""
        import hashlib

        try:
            with self.open() as descriptor:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return ""
                with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
                    return hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return ABSENT

    def may_write(self) -> bool:
        """Whether the file itself could be opened for writing."""
        effective = os.access in os.supports_effective_ids
        return os.access(self.name, os.W_OK, dir_fd=self.folder, effective_ids=effective)

    def flush(self) -> None:
        """Flush the folder's names to the disk, if the file system supports it."""
        _flush(self.folder)


@contextlib.contextmanager
def open_place(path: str, *, resolved: bool, make: bool = False) -> Generator[FilePlace]:
    """Open the folder of a path; ``make`` creates missing folders. Also removes temporary files that killed
    processes left in it.

    ``resolved``: the path contained no link when it was resolved; a link in it now raises ``StaleFile``. Raises
    ``OSError``.
    """
    folder = _open_parent(path, resolved=resolved, make=make)
    try:
        _sweep(folder)
        yield FilePlace(folder, PurePath(path).name or ".", path, resolved)
    finally:
        os.close(folder)


def open_nofollow(path: str, flags: int) -> int:
    """``os.open`` of an absolute path without links. Raises ``StaleFile`` for a link, and ``OSError``."""
    folder, name = _open_parent(path, resolved=True, make=False), PurePath(path).name or "."
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if _is_link(folder, name):
            raise leads_elsewhere(path) from error
        raise
    finally:
        os.close(folder)


def _open_parent(path: str, *, resolved: bool, make: bool) -> int:
    parent = PurePath(path).parent
    folder = os.open(parent.anchor or ".", _SEARCH)
    for name in parent.relative_to(parent.anchor).parts:
        try:
            below = _open_or_make(folder, name, _SEARCH | (os.O_NOFOLLOW if resolved else 0), make=make)
        except OSError as error:
            if resolved and _is_link(folder, name):
                raise leads_elsewhere(path) from error
            raise
        finally:
            os.close(folder)
        folder = below
    return folder


def _open_or_make(folder: int, name: str, flags: int, *, make: bool) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):  # another process may be faster
        os.mkdir(name, dir_fd=folder)
        _flush(folder)
    return os.open(name, flags, dir_fd=folder)


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _flush(folder: int) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(".", _LIST, dir_fd=folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# -- files that are not whole yet ---------------------------------------------------------------------


@contextlib.contextmanager
def temporary_file(folder: int, mode: int) -> Generator[tuple[int, str]]:
    """A new temporary file in a folder, open for writing, and its name; the file is removed afterwards.

    It is locked while its process works on it; one that a killed process left is not. Raises ``OSError``.
    """
    descriptor, name = _create_temporary_file(folder, mode)
    try:
        yield descriptor, name
    finally:
        with contextlib.suppress(OSError):  # it was renamed by now, or it is removed later
            os.unlink(name, dir_fd=folder)
        os.close(descriptor)


def _create_temporary_file(folder: int, mode: int) -> tuple[int, str]:
    while True:
        name = temporary_name()
        descriptor = os.open(name, _NEW, mode, dir_fd=folder)
        with contextlib.suppress(OSError):  # without locks, no process can mistake it for a leftover
            lock(descriptor)
        if os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)  # it was removed before it was locked


def _sweep(folder: int) -> None:
    with contextlib.suppress(OSError):  # a folder that may not be listed
        listing = os.open(".", _LIST, dir_fd=folder)
        try:
            leftovers = [name for name in os.listdir(listing) if is_temporary_file(name)]  # noqa: PTH208 — of an open folder
        finally:
            os.close(listing)
        for name in leftovers:
            _remove_left(folder, name)


def _remove_left(folder: int, name: str) -> None:
    with contextlib.suppress(OSError):  # it is another user's, or its process is alive
        descriptor = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=folder)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                lock(descriptor, wait=False)
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(descriptor)
