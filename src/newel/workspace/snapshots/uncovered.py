"""Finds what changed among the files of a project that snapshots do not cover."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

import msgspec

from newel.workspace.snapshots.ignore_rules import NEVER
from newel.workspace.snapshots.tree import join

MAX_ENTRIES: Final = 50_000
"""Entries of directories that are not covered to look at, all in all: about a quarter of a second."""

TRUSTED_BY_GIT: Final = ("config", "config.worktree", "hooks", "info")
"""In a repository's own directory: settings, and programs that git runs."""

HISTORY: Final = ("HEAD", "packed-refs", "logs/HEAD")
"""What every commit and every switch of branches writes."""


CREATION: Final = "description"
"""In a repository's own directory: only its creation writes it."""


class UncoveredChanges(msgspec.Struct, frozen=True):
    """Paths relative to the root, a directory with a slash at its end. ``files`` changed, or hold something that did. ``deleted`` are gone
    (without the slash). ``trusted`` are settings and hooks of repositories, and new repositories. ``unchecked`` have too many files to
    look at.
    """

    files: list[str] = []
    deleted: list[str] = []
    trusted: list[str] = []
    unchecked: list[str] = []


FOREVER: Final = 1 << 63
"""Later than all times, in nanoseconds."""


class EntryStatus(NamedTuple):
    """What is at a path itself, whether it changed since the moment that matters, and whether it did so too late to be told from what
    the user has done since.
    """

    is_folder: bool
    is_new: bool
    is_late: bool = False

    @property
    def is_in_time(self) -> bool:
        return self.is_new and not self.is_late

    @classmethod
    def of(cls, mode: int, changed_ns: int, since_ns: int, until_ns: int) -> EntryStatus:
        return cls(stat.S_ISDIR(mode), changed_ns >= since_ns, changed_ns > until_ns)


class UncoveredEntries(Protocol):
    """Looks at paths relative to the root of a project."""

    def status(self, path: str, /) -> EntryStatus | None:
        """None if nothing is there."""
        ...

    def has_new_below(self, folder: str, /, *, late: bool = False) -> bool | None:
        """Whether something below a directory is new, and in time unless ``late``; None if there is too much to look at."""
        ...

    def names(self, folder: str, /) -> list[str]:
        """The names in a directory, at least of what is new, sorted."""
        ...


def find_uncovered(entries: UncoveredEntries, paths: Iterable[str]) -> UncoveredChanges:
    """What changed at ``paths`` and below them. Settings and hooks of repositories count even if they changed late. Blocks; changes
    nothing.
    """
    found = UncoveredChanges([], [], [], [])
    for path in sorted(paths):
        status = entries.status(path)
        if status is None:
            continue  # it is gone; where that matters, the directory above says so
        if path.rpartition("/")[2] in NEVER:
            _add_repository(path, status, entries, found)
        elif not status.is_folder:
            if status.is_in_time:
                found.files.append(path)
        elif status.is_in_time or (has_new := entries.has_new_below(path)):
            found.files.append(path + "/")
        elif has_new is None:
            found.unchecked.append(path + "/")
    return found


def _add_repository(
    path: str, status: EntryStatus, entries: UncoveredEntries, found: UncoveredChanges
) -> None:
    if not status.is_folder:  # it names a repository elsewhere
        found.trusted.extend([path] if status.is_new else [])
        return
    made = entries.status(f"{path}/{CREATION}")
    if made is not None and made.is_new:
        found.trusted.extend([] if made.is_late else [path + "/"])
        return
    found.trusted.extend(_changed_in_store(path, entries))
    history = (entries.status(f"{path}/{each}") for each in HISTORY)
    if any(status is not None and status.is_in_time for status in history):
        found.files.append(path + "/")


def _changed_in_store(path: str, entries: UncoveredEntries) -> Iterator[str]:
    for name in TRUSTED_BY_GIT:
        where = f"{path}/{name}"
        if not _is_new(where, entries) and not entries.has_new_below(where, late=True):
            continue
        below = [each for each in entries.names(where) if _is_new(f"{where}/{each}", entries)]
        yield from (join(where, each) for each in below)
        if not below:
            yield where


def _is_new(path: str, entries: UncoveredEntries) -> bool:
    status = entries.status(path)
    return status is not None and status.is_new


class LocalEntries:
    """Implements ``UncoveredEntries`` on this machine. Looks at ``left`` entries of directories at most."""

    def __init__(self, root: str, since_ns: int, until_ns: int = FOREVER) -> None:
        self.left = MAX_ENTRIES
        self._root = root
        self._since_ns = since_ns
        self._until_ns = until_ns

    def status(self, path: str, /) -> EntryStatus | None:
        with contextlib.suppress(OSError):
            status = os.lstat(self._absolute(path))
            return EntryStatus.of(status.st_mode, status.st_ctime_ns, self._since_ns, self._until_ns)
        return None

    def has_new_below(self, folder: str, /, *, late: bool = False) -> bool | None:
        until_ns = FOREVER if late else self._until_ns
        waiting = [self._absolute(folder)]
        while waiting and self.left > 0:
            with contextlib.suppress(OSError), os.scandir(waiting.pop()) as listing:
                for entry in listing:
                    self.left -= 1
                    with contextlib.suppress(OSError):
                        if self._since_ns <= entry.stat(follow_symlinks=False).st_ctime_ns <= until_ns:
                            return True
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
        return None if self.left <= 0 else False

    def names(self, folder: str, /) -> list[str]:
        with contextlib.suppress(OSError):
            return sorted(os.listdir(self._absolute(folder)))  # noqa: PTH208 — names may be any bytes
        return []

    def _absolute(self, path: str) -> str:
        return os.path.join(self._root, path)  # noqa: PTH118 — as above
