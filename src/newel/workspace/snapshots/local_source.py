"""Snapshot source for a project on this machine. Paths are opened name by name, so that no link leads out of the project."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import anyio.to_thread

from newel.workspace.git import find_repository, run_git
from newel.workspace.snapshots.ignore_rules import IgnoreRules
from newel.workspace.snapshots.inotify import InotifyWatches
from newel.workspace.snapshots.port import DIGESTED, Digest, Entries, Reading, Touched
from newel.workspace.snapshots.tree import signature, split
from newel.workspace.snapshots.uncovered import LocalEntries, UncoveredChanges, find_uncovered

T = TypeVar("T")

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES: Final = 3

_LOCAL_CLOCK_SLACK_NS: Final = 100_000_000
CLOCK_SLACK_NS: Final = 2_000_000_000
"""More than the resolution of timestamps, of local and of all file systems. Only of files that are older do the times reveal
any later write.
"""


_TRANSIENT_ERRORS: Final = frozenset({errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})


def retry_once(work: Callable[[], T]) -> T:
    """Run ``work`` again if it fails with a transient error. Raises ``OSError``."""
    try:
        return work()
    except OSError as error:
        if error.errno not in _TRANSIENT_ERRORS:
            raise
        return work()


def open_root(root: str) -> int:
    return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def open_folder(root: int, path: str) -> int:
    """Open the directory ``path`` below the open directory ``root``. Raises ``OSError``."""
    folder = os.open(".", _FOLDER, dir_fd=root)
    for name in path.split("/") if path else ():
        try:
            below = os.open(name, _FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    return folder


class LocalSnapshotSource:
    """A ``SnapshotSource``. ``excluded`` are absolute paths. Without ``watch`` all signatures are compared each time, on Linux too."""

    def __init__(self, root: str, *, excluded: Iterable[str] = (), watch: bool = True) -> None:
        self.root = os.path.realpath(root)
        self.excluded = frozenset(os.path.relpath(os.path.realpath(path), self.root) for path in excluded)
        self.rules = IgnoreRules(self.root, run_git, find_repository)
        self._may_watch = watch
        self._watches: InotifyWatches | None = None
        self._watched_root: tuple[int, int] | None = None
        self._root = -1
        self._path = ""
        self._folder = -1

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    def cancel(self) -> None:
        """Nothing to cancel: no work waits for the event loop."""

    # -- where to look ------------------------------------------------------------------------------

    def touched(self, linked: Iterable[str], /, *, everywhere: bool) -> Touched | None:
        touched = (
            None if everywhere or self._watches is None or self._is_replaced() else self._watches.changes()
        )
        if touched is None:
            self._unwatch()
            self._watched_root = self._identity()
            self._watches = InotifyWatches.open(self.root) if self._may_watch else None
            return None
        for path in linked:
            folder, name = split(path)
            touched.setdefault(folder, set()).add(name)
        return touched

    def _is_replaced(self) -> bool:
        """Whether another folder has the root's name. The watched one tells nothing of it, nor of its own end while a sandbox holds it."""
        return self._identity() != self._watched_root

    def _identity(self) -> tuple[int, int] | None:
        with contextlib.suppress(OSError):
            status = os.stat(self.root)  # noqa: PTH116 — asked before each command
            return status.st_dev, status.st_ino
        return None

    def is_quiet(self) -> bool:
        return self._watches is not None and self._watches.is_quiet() and not self._is_replaced()

    def unwatch(self, path: str) -> None:
        if self._watches is not None:
            self._watches.remove(path)

    def clock_offset_ns(self) -> int:
        return 0

    def changed_at(self, path: str, /) -> int:
        times = [0]
        for follow in (False, True):
            with contextlib.suppress(OSError, ValueError):
                times.append(os.stat(path, follow_symlinks=follow).st_ctime_ns)  # noqa: PTH116 — any bytes
        return max(times)

    def uncovered(self, paths: Iterable[str], since_ns: int, until_ns: int, /) -> UncoveredChanges:
        return find_uncovered(LocalEntries(self.root, since_ns, until_ns), paths)

    def umask(self) -> int:
        with contextlib.suppress(OSError):
            match = re.search(rb"^Umask:\s*([0-7]+)$", Path("/proc/self/status").read_bytes(), re.MULTILINE)
            if match is not None:
                return int(match[1], 8)
        # A file that another thread creates meanwhile gets too few permissions, not too many.
        umask = os.umask(0o077)
        os.umask(umask)
        return umask

    def close(self) -> None:
        self._unwatch()
        self._may_watch = False

    def _watch(self, path: str, descriptor: int) -> None:
        if self._watches is not None and self._may_watch:
            self._may_watch = self._watches.add(path, descriptor)

    def _unwatch(self) -> None:
        if self._watches is not None:
            self._watches.close()
            self._watches = None

    # -- directories --------------------------------------------------------------------------------

    def start(self) -> None:
        self._root = open_root(self.root)

    def finish(self) -> None:
        self._leave()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1
        if not self._may_watch:  # the limit is reached, and partial watches are no use
            self._unwatch()

    def prefetch(self, paths: Iterable[str]) -> None:
        """Nothing to prefetch."""

    def entries(self, path: str, names: Collection[str] | None) -> Entries:
        descriptor = retry_once(lambda: open_folder(self._root, path))
        try:
            if names is not None:
                return list(_stat_names(descriptor, names))
            self._watch(path, descriptor)  # before listing, or new files would be missed
            return _list_all(descriptor)
        finally:
            os.close(descriptor)

    # -- contents -----------------------------------------------------------------------------------

    def read(self, paths: Iterable[tuple[str, int]], limit: int) -> Iterator[tuple[str, Reading | OSError]]:
        for path, _ in paths:
            reading: Reading | OSError
            try:
                reading = self._read(path, limit)
            except OSError as error:
                reading = self._read_again(path, limit) if error.errno in _TRANSIENT_ERRORS else error
            yield path, reading

    def _read_again(self, path: str, limit: int) -> Reading | OSError:
        try:
            return self._read(path, limit)
        except OSError as error:
            return error

    def _read(self, path: str, limit: int) -> Reading:
        """Fastest if the files of one directory follow each other. Raises ``OSError``."""
        slack = CLOCK_SLACK_NS if self._watches is None else _LOCAL_CLOCK_SLACK_NS
        settled_ns = time.time_ns() - slack
        folder, name = split(path)
        if self._folder < 0 or folder != self._path:
            self._leave()
            self._folder, self._path = open_folder(self._root, folder), folder
        try:
            descriptor = os.open(name, _FILE, dir_fd=self._folder)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            return _read_link(self._folder, name, settled_ns)
        try:
            return _read(descriptor, limit, settled_ns)
        finally:
            os.close(descriptor)

    def digest(self, path: str, /) -> Digest | None:
        folder, name = split(path)
        above = open_folder(self._root, folder)
        try:
            descriptor = os.open(name, _FILE, dir_fd=above)
        finally:
            os.close(above)
        with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 — a descriptor
            settled_ns = time.time_ns() - CLOCK_SLACK_NS
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > DIGESTED:
                return None
            sha256 = hashlib.file_digest(file, "sha256").digest()
            is_steady = signature(os.fstat(descriptor)) == signature(status)
            return Digest(sha256, status, fresh=not is_steady or status.st_ctime_ns > settled_ns)

    def _leave(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1


def _list_all(descriptor: int) -> Entries:
    found: list[tuple[str, os.stat_result]] = []
    with os.scandir(descriptor) as entries:
        for entry in entries:
            try:
                found.append((entry.name, entry.stat(follow_symlinks=False)))
            except FileNotFoundError:  # `suppress` would take as long as the rest
                continue
    return found


def _stat_names(descriptor: int, names: Iterable[str]) -> Entries:
    for name in names:
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield name, status


def _read(descriptor: int, limit: int, settled_ns: int) -> Reading:
    status = os.fstat(descriptor)
    data = b""
    for _ in range(_TRIES):  # a file that is being written is read again, and in the end counts as fresh
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return Reading(None, status, fresh=False)
        data = _read_bytes(descriptor, status.st_size, limit)
        now = os.fstat(descriptor)
        is_steady = now.st_ctime_ns == status.st_ctime_ns and now.st_mtime_ns == status.st_mtime_ns
        if is_steady and len(data) == status.st_size == now.st_size:
            return Reading(data, status, fresh=status.st_ctime_ns > settled_ns)
        status = now
    return Reading(data if len(data) <= limit else None, status, fresh=True)


def _read_link(folder: int, name: str, settled_ns: int) -> Reading:
    """Read a link's target. Raises ``OSError`` if it was replaced."""
    target = os.readlink(os.fsencode(name), dir_fd=folder)
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    target_again = os.readlink(os.fsencode(name), dir_fd=folder)
    if not stat.S_ISLNK(status.st_mode) or target_again != target:
        return Reading(target_again, status, fresh=True)
    return Reading(target, status, fresh=status.st_ctime_ns > settled_ns)


def _read_bytes(descriptor: int, size: int, limit: int) -> bytes:
    """Read to the end, but at most one byte more than ``limit``; ``size`` is at most that."""
    data = os.pread(descriptor, size + 1, 0)
    if len(data) <= size:
        return data
    pieces = [data]  # it has grown
    offset = len(data)
    while offset <= limit:
        most = min(max(size - offset, 0) + 1, limit + 1 - offset)
        piece = os.pread(descriptor, most, offset)
        pieces.append(piece)
        offset += len(piece)
        if len(piece) < most:  # of a regular file: its end
            break
    return b"".join(pieces)
