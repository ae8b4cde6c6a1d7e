"""A number that a command's processes inherit from the kernel, whatever they do to detach themselves.

A process may leave its session, close its files and start with an empty environment; a daemon does all three. But it keeps its
resource limits. One of them, the CPU time of real-time processes (``RLIMIT_RTTIME``), is unlimited nearly everywhere, and its
soft value is readable for every process. So each command is started with its own value: made from the command's mark, and too
large to limit anything. The mark's last digit encodes the agent's rights, for a Newel that is started by the command.

Linux only. A process that sets this limit itself escapes detection by it.

Standard library only, as the watchdog imports nothing else.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

RIGHTS: Final = ("", "read-only", "ask", "review", "auto")
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
    return _name(int(mark[-1])) if mark[-1:].isdecimal() else RIGHTS[0]


def number_of_mark(mark: str) -> int:
    """The number of a command."""
    return _LEAST | int(mark[:14], 16) << 4 | int(mark[-1], 16)


def rights_of_number(number: int) -> str:
    return _name(number & 0xF)


@contextmanager
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


def read(pid: int | str) -> int | None:
    """The number of a process; None if it has none or has ended."""
    try:
        with open(f"/proc/{pid}/limits", "rb", buffering=0) as file:  # noqa: PTH123 — pathlib is slow to import
            soft = file.read().partition(_ROW)[2].split(maxsplit=1)[:1]
    except OSError:
        return None
    number = int(soft[0]) if soft and soft[0].isdigit() else 0
    return number if _LEAST <= number < 2 * _LEAST else None


def _name(index: int) -> str:
    return RIGHTS[index] if index < len(RIGHTS) else RIGHTS[0]
