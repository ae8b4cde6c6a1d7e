"""What changed on a host among the files of a project that snapshots do not cover, in three requests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Final

from newel.workspace.snapshots.ignore_rules import NEVER
from newel.workspace.snapshots.uncovered import (
    CREATION,
    FOREVER,
    HISTORY,
    MAX_ENTRIES,
    TRUSTED_BY_GIT,
    EntryStatus,
)
from newel.workspace.ssh.snapshots.rooted_shell import RootedShell, records

MAX_FOUND: Final = 16_384
"""Bytes of the names that a directory yields."""

FULL: Final = MAX_FOUND - 8192
"""From so many bytes on, a name may have been cut off."""

_FACTS: Final = 256
"""Upper bound of bytes for the facts of an entry."""

_SECOND: Final = 1_000_000_000

RECENT: Final = """
find / -prune -cmin -1 >/dev/null 2>&1 || {{ for d do printf './/?%s\\0' "${{d#.//}}"; done; exit 0; }}
for d do
if [ "$(find "$d" 2>/dev/null | head -n {most} | wc -l)" -ge {most} ]; then printf './/?%s\\0' "${{d#.//}}"
else find "$d" -mindepth 1 -cmin -{minutes} -print0 2>/dev/null | head -c {bytes}; printf '\\0'
fi
done
"""
"""Prints what changed lately below the directories ``"$@"``, with a NUL after each; and, with a question mark before their names, those
that have too many entries or whose times the host's ``find`` cannot compare.
"""


class HostEntries:
    """Implements ``newel.workspace.snapshots.uncovered.UncoveredEntries`` for ``paths`` below the root of a shell. ``since_ns`` and
    ``until_ns`` are on the host's clock.
    """

    def __init__(
        self, shell: RootedShell, paths: Iterable[str], since_ns: int, until_ns: int = FOREVER
    ) -> None:
        self._shell = shell
        # Some programs report whole seconds.
        self._since_ns = since_ns - (_SECOND if shell.scripts.capabilities.variant == "stat" else 0)
        self._until_ns = until_ns
        self._statuses: dict[bytes, EntryStatus] = {}
        self._below: dict[bytes, list[bytes]] = {}
        """What changed lately below directories."""
        self._partly: set[bytes] = set()
        """The directories of which not all was looked at."""
        self._look_at(_with_stores(map(os.fsencode, paths)))
        self._look_below([path for path in self._statuses if self._is_searched(path)])

    def status(self, path: str, /) -> EntryStatus | None:
        return self._statuses.get(os.fsencode(path))

    def has_new_below(self, folder: str, /, *, late: bool = False) -> bool | None:
        name = os.fsencode(folder)
        below = (self._statuses[path] for path in self._below.get(name, ()) if path in self._statuses)
        if any(status.is_new if late else status.is_in_time for status in below):
            return True
        return None if name in self._partly else False

    def names(self, folder: str, /) -> list[str]:
        inside = os.fsencode(folder) + b"/"
        names = {path[len(inside) :].partition(b"/")[0] for path in self._below.get(inside[:-1], ())}
        return sorted(map(os.fsdecode, names))

    def _is_searched(self, path: bytes) -> bool:
        """Whether it matters what is below a path."""
        folder, _, name = path.rpartition(b"/")
        in_store = os.fsdecode(folder.rpartition(b"/")[2]) in NEVER
        if in_store:
            return os.fsdecode(name) in TRUSTED_BY_GIT and self._statuses[path].is_folder
        status = self._statuses[path]
        return os.fsdecode(name) not in NEVER and status.is_folder and not status.is_in_time

    def _look_at(self, paths: list[bytes]) -> None:
        if not paths:
            return
        scripts = self._shell.scripts
        most = _FACTS + sum(len(path) + _FACTS for path in paths)
        for facts, path in records(self._shell.ask_of(paths, f"{scripts.looks()}; :", most)):
            seen = scripts.seen(facts)
            self._statuses[path] = EntryStatus.of(
                seen.st_mode, seen.st_ctime_ns, self._since_ns, self._until_ns
            )

    def _look_below(self, folders: list[bytes]) -> None:
        if not folders:
            return
        now = time.time_ns() + self._shell.clock_offset_ns()
        text = RECENT.format(
            most=MAX_ENTRIES + 1, bytes=MAX_FOUND, minutes=max(0, now - self._since_ns) // (60 * _SECOND) + 2
        )
        most = _FACTS + sum(MAX_FOUND + len(folder) + _FACTS for folder in folders)
        pieces = self._shell.ask_of(folders, text, most).split(b".//")[1:]
        found = [path for path, ended, _ in (piece.partition(b"\0") for piece in pieces) if ended]
        self._partly.update(path[1:] for path in found if path[:1] == b"?" and path[1:] in folders)
        for folder in folders:
            below = [path for path in found if path.startswith(folder + b"/")]
            self._below[folder] = below
            if sum(len(path) + 4 for path in below) > FULL:
                self._partly.add(folder)
        self._look_at(list(dict.fromkeys(path for below in self._below.values() for path in below)))


def _with_stores(paths: Iterable[bytes]) -> list[bytes]:
    """The paths, and what matters in repositories' own directories."""
    found: list[bytes] = []
    for path in paths:
        found.append(path)
        if os.fsdecode(path.rpartition(b"/")[2]) in NEVER:
            found += [path + b"/" + os.fsencode(name) for name in (CREATION, *TRUSTED_BY_GIT, *HISTORY)]
    return found
