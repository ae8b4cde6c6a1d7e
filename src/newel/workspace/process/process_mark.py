"""Finds all processes that a command has started, so that they can be ended.

They are identified by their session; those that left it (``setsid``, daemons) by a number, or by the mark in their initial
environment. Without ``/proc``, as on macOS, only the first process group of the session is found.

The number is inherited from the kernel, whatever a process does to detach itself. It may leave its session, close its files and
start with an empty environment; a daemon does all three. But it keeps its resource limits. One of them, the CPU time of real-time
processes (``RLIMIT_RTTIME``), is unlimited nearly everywhere, and its soft value is readable for every process. So each command is
started with its own value: made from the command's mark, and too large to limit anything. The mark's last digit encodes the agent's
rights, for a Newel that is started by the command. Linux only. A process that sets this limit itself escapes detection by it.

Standard library only, as the watchdog imports nothing else.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
from collections.abc import Collection, Generator, Iterable
from typing import Final, NamedTuple

MARK: Final = "NEWEL_RUN"
"""The variable with the marks of a process's commands: several if a command is an agent with commands of its own."""

_NAMES_MARK: Final = f"\0{MARK}=".encode()

FEW: Final = 500
"""Process IDs to try one by one, which is faster than listing all processes."""

MAX_ANCESTORS: Final = 100

OLDER: Final = 10 * os.sysconf("SC_CLK_TCK")
"""A process that is older than a command by more than these clock ticks was not started by it, so its mark is not read: Esc would wait."""

MAX_SHOWN: Final = 100
"""Characters of a process's command line to show."""

LINE_BYTES: Final = 64
"""A line of the watchdog's table: 32 digits, two numbers, padded with spaces, and its end."""

NO_LINE: Final = b" " * (LINE_BYTES - 1) + b"\n"
"""A line without a command."""


class ProcessMark(NamedTuple):
    """Identifies a command's processes: by its mark, and by its first process, whose session they share.

    ``began``, the start time, distinguishes that process from a later one with the same ID. Both numbers are 0 until the
    process has started.
    """

    mark: str
    session: int = 0
    began: int = 0

    def line(self) -> bytes:
        return f"{self.mark} {self.session} {self.began}".encode().ljust(LINE_BYTES - 1) + b"\n"

    @classmethod
    def read(cls, line: bytes) -> ProcessMark:
        mark, session, began = line.decode().split()
        return cls(mark, int(session), int(began))


def is_running(commands: Collection[ProcessMark]) -> bool:
    """Whether any process of these commands runs."""
    return bool(_targets(commands))


def signal(commands: Collection[ProcessMark], number: int, *, spared: int = 0) -> bool:
    """Send a signal to all processes of these commands, but not to the process group ``spared``. Returns whether any process runs."""
    targets = _targets(commands)
    for target in targets - {-spared}:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it ended, or is another user's
            os.kill(target, number)
    return bool(targets)


def signal_first(command: ProcessMark, number: int) -> bool:
    """Send a signal to the group of a command's first process, without a look at all processes; False if that process has ended."""
    if not command.session or start_time(command.session) != command.began:
        return False
    try:
        os.killpg(command.session, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def find_remaining(command: ProcessMark, *, all_of_them: bool) -> list[str]:
    """Describe the processes of a command that still run, such as ``sleep 600 (pid 123)``.

    With ``all_of_them`` every process of the system is checked; else only those that may have started after the command's first
    one, which is usually cheap.
    """
    pids = _processes() if all_of_them else _pids_since(command.session)
    return [_describe(pid) for pid in pids if _belongs_to(pid, command)]


def inherited_rights() -> str | None:
    """The rights of the agent whose command this process is part of, one of ``RIGHTS``; the fewest of several agents',
    None without one.
    """
    marks = os.environ.get(MARK, "").split()
    numbers = [read_number("self")]
    pid = os.getppid()
    for _ in range(MAX_ANCESTORS):
        process = _inspect(str(pid))
        if process is None:
            break
        numbers.append(read_number(pid))
        marks += [mark.decode(errors="replace") for mark in _marks(pid)]
        pid = process.parent
    rights = [rights_of_mark(mark) for mark in marks]
    rights += [rights_of_number(number) for number in numbers if number is not None]
    return min(rights, key=RIGHTS.index, default=None)


def agent_processes() -> set[int]:
    """All processes of agents' commands, and their descendants."""
    processes = _processes()
    marked = {pid for pid in processes if read_number(pid) is not None or _marks(pid)}
    for pid in processes:
        above = [pid]
        while (
            above[-1] not in marked and (process := processes.get(above[-1])) and len(above) < MAX_ANCESTORS
        ):
            above.append(process.parent)
        if above[-1] in marked:
            marked.update(above)
    return marked


def start_time(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 if unknown."""
    status = _inspect(str(pid))
    return status.began if status else 0


def _targets(commands: Collection[ProcessMark]) -> set[int]:
    """Targets for ``kill``: groups of the sessions as negative numbers, and processes outside of them.

    A shell with job control gives each job its own group, so the first group is not enough.
    """
    processes = _processes()
    if not processes:
        return {-command.session for command in commands if command.session and _is_group(command.session)}
    sessions = {
        session
        for _, session, began in commands
        # The kernel reuses an ID only when no process is left in its session.
        if session and ((first := processes.get(session)) is None or first.began == began)
    }
    marks = {command.mark.encode() for command in commands}
    numbers = {number_of_mark(command.mark) for command in commands}
    oldest = min((command.began for command in commands), default=0) - OLDER
    targets: set[int] = set()
    for pid, process in processes.items():
        if process.session in sessions:
            targets.add(-process.group)
        elif process.began < oldest:
            continue
        elif read_number(pid) in numbers or not marks.isdisjoint(_marks(pid)):
            targets.add(pid)
    return targets


def _belongs_to(pid: int, command: ProcessMark) -> bool:
    """Whether a process runs and belongs to a command; threads do not count."""
    process = _inspect(str(pid))
    if process is None or not (
        0 < command.session == process.session  # kernel threads have the session 0
        or read_number(pid) == number_of_mark(command.mark)
        or command.mark.encode() in _marks(pid)
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
    """A process's command line and ID, on one line; in a sandbox, where the next command knows it by another ID, both."""
    try:
        command = _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ") or _read(f"/proc/{pid}/comm")
    except OSError:
        command = b"?"
    line = " ".join(
        "".join(
            character if character.isprintable() else " " for character in command.decode(errors="replace")
        ).split()
    )
    inside = _pid_inside(pid)
    number = f"pid {pid}" if inside == pid else f"pid {inside} inside the sandbox, {pid} outside"
    return f"{line[:MAX_SHOWN]}{'…' if len(line) > MAX_SHOWN else ''} ({number})"


def _pid_inside(pid: int) -> int:
    """The ID of a process in its own namespace."""
    with contextlib.suppress(OSError):
        for line in _read(f"/proc/{pid}/status").splitlines():
            if line.startswith(b"NSpid:"):
                return int(line.split()[-1])
    return pid


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
    except (OSError, IndexError):  # it ended in the meantime
        return None
    return None if state in b"ZX" else _Process(int(parent), int(group), int(session), int(began))


def _marks(pid: int) -> list[bytes]:
    """The marks in a process's initial environment."""
    try:
        environ = _read(f"/proc/{pid}/environ")
    except OSError:  # it ended, or is another user's
        return []
    return (b"\0" + environ).partition(_NAMES_MARK)[2].partition(b"\0")[0].split()


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 — pathlib is slow to import
        return file.read()


# -- the number -------------------------------------------------------------------------------------------

RIGHTS: Final = ("", "read-only", "plan", "ask", "review", "auto")
"""An agent's rights: values of ``--approve``, the fewest rights first; empty for unknown."""

_LEAST: Final = 1 << 60
"""The smallest of the numbers, microseconds: more than 36,000 years."""

_ROW: Final = b"\nMax realtime timeout "
_LIMIT_LOCK: Final = threading.Lock()
# Global on purpose: a process has one set of rights, and every command that it starts inherits it.
_granted_index = 0


def grant(rights: str) -> None:
    """Set the rights of this process's agents."""
    global _granted_index  # noqa: PLW0603 — see above
    _granted_index = RIGHTS.index(rights)


def new_mark() -> str:
    """32 hexadecimal digits, unique to a command; the last one holds its rights."""
    return f"{os.urandom(16).hex()[:31]}{_granted_index}"


def rights_of_mark(mark: str) -> str:
    """The rights of the agent whose command has this mark."""
    return _rights_at(int(mark[-1])) if mark[-1:].isdecimal() else RIGHTS[0]


def number_of_mark(mark: str) -> int:
    """The number of a command."""
    return _LEAST | int(mark[:14], 16) << 4 | int(mark[-1], 16)


def rights_of_number(number: int) -> str:
    return _rights_at(number & 0xF)


@contextlib.contextmanager
def inherit_number(mark: str) -> Generator[None]:
    """Processes started within inherit the mark's number, if the system allows."""
    if sys.platform != "linux":
        yield
        return
    with _LIMIT_LOCK:
        before = resource.getrlimit(resource.RLIMIT_RTTIME)
        try:
            resource.setrlimit(resource.RLIMIT_RTTIME, (number_of_mark(mark), before[1]))
        except (OSError, ValueError):  # our own limit is lower, or limits may not be changed
            yield
            return
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_RTTIME, before)


def read_number(pid: int | str) -> int | None:
    """The number of a process; None if it has none or has ended."""
    try:
        with open(f"/proc/{pid}/limits", "rb", buffering=0) as file:  # noqa: PTH123 — pathlib is slow to import
            soft = file.read().partition(_ROW)[2].split(maxsplit=1)[:1]
    except OSError:
        return None
    number = int(soft[0]) if soft and soft[0].isdigit() else 0
    return number if _LEAST <= number < 2 * _LEAST else None


def _rights_at(index: int) -> str:
    return RIGHTS[index] if index < len(RIGHTS) else RIGHTS[0]
