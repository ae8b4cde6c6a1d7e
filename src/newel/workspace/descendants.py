"""Finding all that a command has started, so that it can be stopped."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

MARK: Final = "NEWEL_RUN"
"""The variable by which the processes of one command are known; inside of another's, it names both."""


class Descendants:
    """The processes of a command that was started in a session of its own with ``environ``.

    They are known by their session, and those that have left it (``setsid``, a daemon) by the mark in the
    environment that they began with. Only what began with another environment is beyond reach. Where there
    is no ``/proc``, as on macOS, only the first process group of the session can be seen.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._mark = os.urandom(16).hex()
        self.environ = {**environ, MARK: f"{environ.get(MARK, '')} {self._mark}".lstrip()}
        self.session = 0
        """The number of the command's first process; set it when that has started."""

    def live(self) -> bool:
        return bool(self._targets())

    def signal(self, number: signal.Signals) -> None:
        for target in self._targets():
            with contextlib.suppress(ProcessLookupError, PermissionError):  # gone by now, or another user's
                os.kill(target, number)

    def _targets(self) -> set[int]:
        """What ``kill`` takes: groups of the session as negative numbers, processes outside of it.

        A shell with job control gives each job a group of its own, so that the first group is not all.
        """
        if not Path("/proc/self/stat").exists():
            try:
                os.killpg(self.session, 0)
            except (ProcessLookupError, PermissionError):
                return set()
            return {-self.session}
        targets: set[int] = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (process := _look_at(entry)) is not None:
                if process.session == self.session:
                    targets.add(-process.group)
                elif self._is_marked(entry):
                    targets.add(int(entry.name))
        return targets

    def _is_marked(self, entry: Path) -> bool:
        try:
            return self._mark.encode() in (entry / "environ").read_bytes()
        except OSError:
            return False  # it ended meanwhile, or is another user's


class _Process(msgspec.Struct, frozen=True):
    group: int
    session: int


def _look_at(entry: Path) -> _Process | None:
    """A process that is more than a zombie, by its folder in ``/proc``."""
    try:
        # The name of the program, in parentheses, may hold anything, parentheses too.
        state, _, group, session, *_ = (entry / "stat").read_bytes().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None  # it ended meanwhile
    return None if state in b"ZX" else _Process(int(group), int(session))
