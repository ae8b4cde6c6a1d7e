"""Finding all processes that a command has started, so that they can be ended.

They are known by their session, and those that have left it (``setsid``, a daemon) by the mark in the environment
that they began with. Only what began with another environment in another session is beyond reach. Where there is no
``/proc``, as on macOS, only the first process group of the session can be seen.

Needs the standard library only, for the watchdog does without anything else.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from typing import Final, NamedTuple

MARK: Final = "NEWEL_RUN"
"""The variable that names the commands to which a process belongs: a command may be another agent, with its own."""

_NAMES_MARK: Final = f"\0{MARK}=".encode()

LINE: Final = 64
"""Bytes of an origin as a line of the watchdog's table: 32 digits, two numbers, and spaces to the end."""


class Origin(NamedTuple):
    """What a command's processes are known by: its mark, and its first process, whose session they share.

    ``began`` tells that process from a later one with the same number, where the system says. Both numbers are 0 as
    long as the process has not started.
    """

    mark: str
    session: int = 0
    began: int = 0

    def line(self) -> bytes:
        return f"{self.mark} {self.session} {self.began}".encode().ljust(LINE)

    @classmethod
    def read(cls, line: bytes) -> Origin:
        mark, session, began = line.decode().split()
        return cls(mark, int(session), int(began))


def live(origins: Collection[Origin]) -> bool:
    """Whether anything of these commands runs."""
    return bool(_targets(origins))


def signal(origins: Collection[Origin], number: int) -> None:
    """Send a signal to all that runs of these commands."""
    for target in _targets(origins):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # gone by now, or another user's
            os.kill(target, number)


def start_time(pid: int) -> int:
    """When a process began, in a unit of the system's own; 0 where it does not say."""
    found = _look_at(str(pid))
    return found.began if found else 0


def _targets(origins: Collection[Origin]) -> set[int]:
    """What ``kill`` takes: groups of the sessions as negative numbers, processes outside of them.

    A shell with job control gives each job a group of its own, so that the first group is not all.
    """
    processes = _processes()
    if not processes:
        return {-origin.session for origin in origins if origin.session and _is_group(origin.session)}
    sessions = {
        session
        for _, session, began in origins
        # A number is given to another process only when nothing is left of its session.
        if session and ((first := processes.get(session)) is None or first.began == began)
    }
    marks = {origin.mark.encode() for origin in origins}
    targets: set[int] = set()
    for pid, process in processes.items():
        if process.session in sessions:
            targets.add(-process.group)
        elif not marks.isdisjoint(_marks(pid)):
            targets.add(pid)
    return targets


def _is_group(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


class _Process(NamedTuple):
    group: int
    session: int
    began: int


def _processes() -> dict[int, _Process]:
    """All that run, by their numbers. Empty where there is no ``/proc``: we at least do run."""
    try:
        entries = os.scandir("/proc")
    except OSError:
        return {}
    with entries:
        return {
            int(entry.name): process
            for entry in entries
            if entry.name.isdigit() and (process := _look_at(entry.name))
        }


def _look_at(name: str) -> _Process | None:
    """A process that is more than a zombie, by its name in ``/proc``."""
    try:
        # The name of the program, in parentheses, may hold anything, parentheses too.
        fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
        state, group, session, began = fields[0], fields[2], fields[3], fields[19]
    except (OSError, IndexError):
        return None  # it ended meanwhile
    return None if state in b"ZX" else _Process(int(group), int(session), int(began))


def _marks(pid: int) -> list[bytes]:
    """The marks that a process began with."""
    try:
        environ = _read(f"/proc/{pid}/environ")
    except OSError:
        return []  # it ended meanwhile, or is another user's
    return (b"\0" + environ).partition(_NAMES_MARK)[2].partition(b"\0")[0].split()


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 — pathlib is slower to import than all the rest
        return file.read()
