"""Finding all processes that a command has started, so that they can be ended.

They are known by their session, and those that have left it (``setsid``, a daemon) by the number that the kernel hands
down (``newel.workspace.process.lineage``) or the mark in the environment that they began with. Where there is no ``/proc``, as
on macOS, only the first process group of the session can be seen.

Needs the standard library only, for the watchdog does without anything else.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from newel.workspace.process import lineage

MARK: Final = "NEWEL_RUN"
"""The variable that names the commands to which a process belongs: a command may be another agent, with its own."""

_NAMES_MARK: Final = f"\0{MARK}=".encode()

FEW: Final = 500
"""Up to so many process numbers are tried one by one, which is quicker than to list all processes."""

MAX_ANCESTORS: Final = 100

MAX_SHOWN: Final = 100
"""Characters of a process's command line that are shown."""

LINE_BYTES: Final = 64
"""Bytes of an origin as a line of the watchdog's table: 32 digits, two numbers, and spaces to the end."""


class ProcessMark(NamedTuple):
    """What a command's processes are known by: its mark, and its first process, whose session they share.

    ``began`` tells that process from a later one with the same number, where the system says. Both numbers are 0 as
    long as the process has not started.
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
    """Whether anything of these commands runs."""
    return bool(_targets(origins))


def signal(origins: Collection[ProcessMark], number: int) -> None:
    """Send a signal to all that runs of these commands."""
    for target in _targets(origins):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # gone by now, or another user's
            os.kill(target, number)


def find_recent(origin: ProcessMark) -> list[str]:
    """What still runs of a command whose first process has ended: ``sleep 600 (pid 123)``, ….

    Only what the command can have started is looked at, so that it costs next to nothing where that is little.
    """
    return [_describe(pid) for pid in _pids_since(origin.session) if _belongs_to(pid, origin)]


def find_all(origin: ProcessMark) -> list[str]:
    """The same, of all processes."""
    return [_describe(pid) for pid, process in _processes().items() if _belongs_to(pid, origin, process)]


def inherited_rights() -> str | None:
    """What the agent may do of whose command this process is a part, one of ``lineage.RIGHTS``, if of several the one that may
    do least; None if it is part of none.
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
    """All processes that are, or descend from, a part of an agent's command."""
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
    """When a process began, in a unit of the system's own; 0 where it does not say."""
    found = _inspect(str(pid))
    return found.began if found else 0


def _targets(origins: Collection[ProcessMark]) -> set[int]:
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
    numbers = {lineage.number_of_mark(origin.mark) for origin in origins}
    targets: set[int] = set()
    for pid, process in processes.items():
        if process.session in sessions:
            targets.add(-process.group)
        elif lineage.read(pid) in numbers or not marks.isdisjoint(_marks(pid)):
            targets.add(pid)
    return targets


def _belongs_to(pid: int, origin: ProcessMark, process: _Process | None = None) -> bool:
    """Whether a process runs and belongs to a command; a thread of one does not count."""
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
    """The numbers of the processes that began after one, and perhaps of others."""
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
    """A process in a line: its command line and its number."""
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
    """All that run, by their numbers. Empty where there is no ``/proc``: we at least do run."""
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
    """A process that is more than a zombie, by its name in ``/proc``."""
    try:
        # The name of the program, in parentheses, may hold anything, parentheses too.
        fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
        state, parent, group, session, began = *fields[:4], fields[19]
    except (OSError, IndexError):
        return None  # it ended meanwhile
    return None if state in b"ZX" else _Process(int(parent), int(group), int(session), int(began))


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
