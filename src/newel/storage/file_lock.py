"""File locks, by ``flock``, and a note of who holds one.

The kernel releases such a lock when its owner dies, however it dies, so there is no stale lock to judge. The note is for
messages only: it may be missing, or be left by a process that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import IO

import msgspec

from newel.agent.messages import Wire

NO_LOCKS = (
    "Its file system may not support locks; set NEWEL_HOME to a local folder, or use `newel --ephemeral`."
)
_MAX_NOTE = 4096


def lock(file: int | IO[bytes], *, wait: bool = True, shared: bool = False) -> None:
    """Lock an open file or folder until it is closed.

    Raises ``BlockingIOError`` if another has it and ``wait`` is false, another ``OSError`` if the file system has no locks.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)


def lock_unless_held(file: int, noted_holder: Callable[[], LockHolder | None]) -> None:
    """Lock an open file, or raise ``BlockingIOError`` if the noted holder has it.

    If the holder was killed, a child that it was starting has its files, and with them the lock, until it becomes another
    program. Wait for that, at most a second.
    """
    deadline = time.monotonic() + 1
    while True:
        try:
            return lock(file, wait=False)
        except BlockingIOError:
            holder = noted_holder()
            if holder is None or holder.is_running or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def unlock(file: int) -> None:
    """Unlock a file before it is closed: a child process that inherited it would keep the lock."""
    fcntl.flock(file, fcntl.LOCK_UN)


class LockHolder(Wire, frozen=True):
    """``place`` is where it can be reached, for example ``http://127.0.0.1:8101``."""

    pid: int
    since: datetime
    place: str = ""

    @property
    def is_running(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:  # it runs, as another user
            pass
        return True


def write_holder(file: int, place: str = "", since: datetime | None = None) -> None:
    """Note in a file that this process holds the lock. Does not raise."""
    note = LockHolder(os.getpid(), since or datetime.now(UTC), place[:200])
    with contextlib.suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, msgspec.json.encode(note), 0)


def read_holder(file: int) -> LockHolder | None:
    try:
        return msgspec.json.decode(os.pread(file, _MAX_NOTE, 0), type=LockHolder)
    except (OSError, ValueError, msgspec.DecodeError):
        return None


def describe_holder(holder: LockHolder | None) -> str:
    """``another Newel at http://127.0.0.1:8101 (pid 7, since 2026-01-31 09:30)``, for a refusal."""
    if holder is None:
        return "another Newel"
    place = f" at {holder.place}" if holder.place else ""
    since = f"since {holder.since.astimezone():%Y-%m-%d %H:%M}"
    if holder.pid == os.getpid():
        return f"this process{place} ({since})"
    return f"another Newel{place} (pid {holder.pid}, {since})"
