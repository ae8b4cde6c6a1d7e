"""Finds all processes that a command has started, so that they can be ended.

They are identified by their session; those that left it (``setsid``, daemons) by a number that the kernel passes on to children
(``newel.workspace.process.lineage``), or by the mark in their initial environment. Without ``/proc``, as on macOS, only the
first process group of the session is found.

Standard library only, as the watchdog imports nothing else.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from newel.workspace.process import lineage

MARK: Final = "NEWEL_RUN"
"""The variable with the marks of a process's commands: several if a command is an agent with commands of its own."""

_NAMES_MARK: Final = f"\0{MARK}=".encode()

FEW: Final = 500
"""Process IDs to try one by one, which is faster than listing all processes."""

MAX_ANCESTORS: Final = 100

MAX_SHOWN: Final = 100
"""Characters of a process's command line to show."""

LINE_BYTES: Final = 64
"""A line of the watchdog's table: 32 digits, two numbers, padded with spaces."""


class ProcessMark(NamedTuple):
    """Identifies a command's processes: by its mark, and by its first process, whose session they share.

    ``began``, the start time, distinguishes that process from a later one with the same ID. Both numbers are 0 until the
    process has started.
    """

    mark: str
    session: int = 0
    began: int = 0

    def line(self) -> bytes:
        return f"{self.mark} {self.session} {self.began}".encode().ljust(LINE_BYTES)

    @classmethod
    def read(cls, line: bytes) -> ProcessMark:
        mark, session, began = line.decode().split()
        return cls(mark, int(session), int(began))


def is_running(origins: Collection[ProcessMark]) -> bool:
    """Whether any process of these commands runs."""
    return bool(_targets(origins))


def signal(origins: Collection[ProcessMark], number: int) -> None:
    """Send a signal to all processes of these commands."""
    for target in _targets(origins):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it ended, or is another user's
            os.kill(target, number)


def find_recent(origin: ProcessMark) -> list[str]:
    """Describe the processes that a command left running, such as ``sleep 600 (pid 123)``.

    Checks only processes that started after the command's first one, which is usually cheap.
    """
    return [_describe(pid) for pid in _pids_since(origin.session) if _belongs_to(pid, origin)]


def find_all(origin: ProcessMark) -> list[str]:
    """As ``find_recent``, but checks all processes."""
    return [_describe(pid) for pid, process in _processes().items() if _belongs_to(pid, origin, process)]


def inherited_rights() -> str | None:
    """The rights of the agent whose command this process is part of, one of ``lineage.RIGHTS``; the fewest of several agents',
    None without one.
    """
    marks = os.environ.get(MARK, "").split()
    numbers = [lineage.read("self")]
    pid = os.getppid()
    for _ in range(MAX_ANCESTORS):
        process = _inspect(str(pid))
        if process is None:
            break
        numbers.append(lineage.read(pid))
        marks += [mark.decode(errors="replace") for mark in _marks(pid)]
        pid = process.parent
    rights = [lineage.rights_of_mark(mark) for mark in marks]
    rights += [lineage.rights_of_number(number) for number in numbers if number is not None]
    return min(rights, key=lineage.RIGHTS.index, default=None)


def agent_processes() -> set[int]:
    """All processes of agents' commands, and their descendants."""
    processes = _processes()
    found = {pid for pid in processes if lineage.read(pid) is not None or _marks(pid)}
    for pid in processes:
        above = [pid]
        while above[-1] not in found and (process := processes.get(above[-1])) and len(above) < MAX_ANCESTORS:
            above.append(process.parent)
        if above[-1] in found:
            found.update(above)
    return found


def start_time(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 if unknown."""
    found = _inspect(str(pid))
    return found.began if found else 0


def _targets(origins: Collection[ProcessMark]) -> set[int]:
    """Targets for ``kill``: groups of the sessions as negative numbers, and processes outside of them.

    A shell with job control gives each job its own group, so the first group is not enough.
    """
    processes = _processes()
    if not processes:
        return {-origin.session for origin in origins if origin.session and _is_group(origin.session)}
    sessions = {
        session
        for _, session, began in origins
        # The kernel reuses an ID only when no process is left in its session.
        if session and ((first := processes.get(session)) is None or first.began == began)
    }
    marks = {origin.mark.encode() for origin in origins}
    numbers = {lineage.number_of_mark(origin.mark) for origin in origins}
    targets: set[int] = set()
    for pid, process in processes.items():
        if process.session in sessions:
            targets.add(-process.group)
        elif lineage.read(pid) in numbers or not marks.isdisjoint(_marks(pid)):
            targets.add(pid)
    return targets


def _belongs_to(pid: int, origin: ProcessMark, process: _Process | None = None) -> bool:
    """Whether a process runs and belongs to a command; threads do not count."""
    process = process or _inspect(str(pid))
    if process is None or not (
        process.session == origin.session
        or lineage.read(pid) == lineage.number_of_mark(origin.mark)
        or origin.mark.encode() in _marks(pid)
    ):
        return False
    try:
        return f"\nTgid:\t{pid}\n".encode() in _read(f"/proc/{pid}/status")
    except OSError:
        return False


def _pids_since(first: int) -> Iterable[int]:
    """The IDs of the processes that started after one, and perhaps others."""
    if not first:
        return ()
    try:
        last = int(_read("/proc/loadavg").split()[-1])
        if 0 <= last - first <= FEW:
            return range(first + 1, last + 1)
        return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 — slow to import
    except (OSError, ValueError, IndexError):
        return ()


def _describe(pid: int) -> str:
    """A process's command line and ID, on one line."""
    try:
        words = _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ") or _read(f"/proc/{pid}/comm")
    except OSError:
        words = b"?"
    line = " ".join(
        "".join(each if each.isprintable() else " " for each in words.decode(errors="replace")).split()
    )
    return f"{line[:MAX_SHOWN]}{'…' if len(line) > MAX_SHOWN else ''} (pid {pid})"


def _is_group(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


class _Process(NamedTuple):
    parent: int
    group: int
    session: int
    began: int


def _processes() -> dict[int, _Process]:
    """All processes by ID; empty without ``/proc``."""
    try:
        entries = os.scandir("/proc")
    except OSError:
        return {}
    with entries:
        return {
            int(entry.name): process
            for entry in entries
            if entry.name.isdigit() and (process := _inspect(entry.name))
        }


def _inspect(name: str) -> _Process | None:
    """Read a process by its name in ``/proc``; None for a zombie or if it ended."""
    try:
        # The program's name, in parentheses, may contain anything, parentheses too.
        fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
        state, parent, group, session, began = *fields[:4], fields[19]
    except (OSError, IndexError):
        return None  # it ended in the meantime
    return None if state in b"ZX" else _Process(int(parent), int(group), int(session), int(began))


def _marks(pid: int) -> list[bytes]:
    """The marks in a process's initial environment."""
    try:
        environ = _read(f"/proc/{pid}/environ")
    except OSError:
        return []  # it ended, or is another user's
    return (b"\0" + environ).partition(_NAMES_MARK)[2].partition(b"\0")[0].split()


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 — pathlib is slow to import
        return file.read()
