"""One writer for each session, by ``flock`` on the session file itself.

The kernel releases such a lock when its owner dies, however it dies, so there is no stale lock to judge.
Who the owner is stands in ``<file>.lock``, for the words of the refusal only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from newel.agent.errors import SessionError, SessionInUse
from newel.agent.messages import Wire
from newel.storage.paths import PRIVATE_FILE

_MAX_NOTE = 4096


class LockHolder(Wire, frozen=True):
    pid: int
    since: datetime


def lock(fd: int, path: Path) -> None:
    """Become the only writer of the open session file, until ``unlock`` or the process's end. Raises
    ``SessionError`` if another one is.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise SessionInUse(path.name, _where(path)) from error
    except OSError as error:
        raise SessionError(
            f"The session {path} cannot be locked: {error.strerror}. Its file system may not know locks; "
            "set NEWEL_HOME to a local folder, or use --ephemeral."
        ) from error
    with contextlib.suppress(OSError):  # only the words of a refusal depend on it
        _note_owner(path)


def unlock(fd: int, path: Path) -> None:
    with contextlib.suppress(OSError):
        _note(path).unlink()
    fcntl.flock(fd, fcntl.LOCK_UN)


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _note_owner(path: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    note = os.open(_note(path), flags, PRIVATE_FILE)
    try:
        os.write(note, msgspec.json.encode(LockHolder(os.getpid(), datetime.now(UTC))))
    finally:
        os.close(note)


def owner(path: Path) -> LockHolder | None:
    """Who writes to a session, as far as can be seen without its lock; None for nobody, and for this process."""
    noted = _noted(path)
    if noted is None or noted.pid == os.getpid():
        return None
    try:
        os.kill(noted.pid, 0)
    except ProcessLookupError:  # it was killed
        return None
    except OSError:
        pass
    return noted


def _noted(path: Path) -> LockHolder | None:
    try:
        with _note(path).open("rb") as note:
            return msgspec.json.decode(note.read(_MAX_NOTE), type=LockHolder)
    except (OSError, ValueError, msgspec.DecodeError):
        return None


def _where(path: Path) -> str:
    noted = _noted(path)
    if noted is None:
        return "in another Newel"
    since = f"{noted.since.astimezone():%Y-%m-%d %H:%M}"
    if noted.pid == os.getpid():
        return f"here already (since {since})"
    return f"in another Newel (pid {noted.pid}, since {since})"
