"""Finds what changed on this machine among the files of a project that snapshots do not cover."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from newel.workspace.snapshots.ignore_rules import NEVER
from newel.workspace.snapshots.tree import join

MAX_ENTRIES: Final = 50_000
"""Entries of directories that are not covered to look at, all in all: about a quarter of a second."""

_TRUSTED_BY_GIT: Final = ("config", "config.worktree", "hooks", "info")
"""In a repository's own directory: settings, and programs that git runs."""

_HISTORY: Final = ("HEAD", "packed-refs", "logs/HEAD")
"""What every commit and every switch of branches writes."""


class UncoveredChanges(msgspec.Struct, frozen=True):
    """Paths relative to the root, a directory with a slash at its end. ``files`` changed, or hold something that did. ``trusted`` are
    settings and hooks of repositories, and new repositories. ``unchecked`` have too many files to look at.
    """

    files: list[str] = []
    trusted: list[str] = []
    unchecked: list[str] = []


def find_uncovered(root: str, paths: Iterable[str], since_ns: int) -> UncoveredChanges:
    """What changed since a moment at ``paths``, relative to the root, and below them. Blocks; changes nothing."""
    found = UncoveredChanges([], [], [])
    entries = _Entries(since_ns)
    for path in sorted(paths):
        absolute = os.path.join(root, path)  # noqa: PTH118 — names may be any bytes
        try:
            status = os.lstat(absolute)
        except OSError:
            continue  # it is gone; where that matters, the directory above says so
        name = path.rpartition("/")[2]
        if name in NEVER:
            if not stat.S_ISDIR(status.st_mode):  # it names a repository elsewhere
                found.trusted.extend([path] if status.st_ctime_ns >= since_ns else [])
                continue
            if entries.is_new(f"{absolute}/description"):  # only the creation of a repository writes it
                found.trusted.append(path + "/")
                continue
            found.trusted.extend(_changed_in_store(absolute, path, entries))
            if any(entries.is_new(f"{absolute}/{each}") for each in _HISTORY):
                found.files.append(path + "/")
        elif not stat.S_ISDIR(status.st_mode):
            if status.st_ctime_ns >= since_ns:
                found.files.append(path)
        elif status.st_ctime_ns >= since_ns or entries.has_new_below(absolute):
            found.files.append(path + "/")
        elif entries.left <= 0:
            found.unchecked.append(path + "/")
    return found


def _changed_in_store(absolute: str, path: str, entries: _Entries) -> Iterator[str]:
    for name in _TRUSTED_BY_GIT:
        where = f"{absolute}/{name}"
        if not entries.is_new(where) and not entries.has_new_below(where):
            continue
        below = [each for each in _names(where) if entries.is_new(f"{where}/{each}")]
        yield from (join(path, f"{name}/{each}") for each in below)
        if not below:
            yield join(path, name)


def _names(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(os.listdir(folder))  # noqa: PTH208 — names may be any bytes
    return []


class _Entries:
    """Looks at entries of directories, ``left`` of them at most."""

    def __init__(self, since_ns: int) -> None:
        self.left = MAX_ENTRIES
        self._since_ns = since_ns

    def is_new(self, path: str) -> bool:
        with contextlib.suppress(OSError):
            return os.lstat(path).st_ctime_ns >= self._since_ns
        return False

    def has_new_below(self, folder: str) -> bool:
        """Whether something below a directory is new; False too if there was not enough ``left``."""
        waiting = [folder]
        while waiting and self.left > 0:
            with contextlib.suppress(OSError), os.scandir(waiting.pop()) as listing:
                for entry in listing:
                    self.left -= 1
                    with contextlib.suppress(OSError):
                        if entry.stat(follow_symlinks=False).st_ctime_ns >= self._since_ns:
                            return True
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
        return False
