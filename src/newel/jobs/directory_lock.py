"""Exclusive lock on a data directory, by ``flock`` on a file in it.

The kernel releases the lock when its owner dies. The file names the owner, for error messages only. It is never deleted:
otherwise two processes could each lock a file of that name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

import msgspec

from newel.agent.messages import Wire, now
from newel.jobs.engine import EngineError
from newel.storage.paths import PRIVATE_FILE

LOCK = "owner.lock"
_MAX_NOTE = 4096


class _Note(Wire, frozen=True):
    pid: int
    since: str
    place: str = ""


class DirectoryLock:
    """Holds a directory from the constructor to ``release`` or the end of the process.

    Raises ``EngineError`` if another process, or another owner in this one, holds it.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / LOCK
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
        except OSError as error:
            raise unusable(directory, error) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _holder(self._fd)
            os.close(self._fd)
            raise EngineError(
                f"{directory} is in use by {holder}. "
                "Use that one, or stop it first; `--ephemeral` starts another that saves nothing."
            ) from error
        except OSError as error:
            os.close(self._fd)
            raise EngineError(
                f"The folder {directory} cannot be locked: {error.strerror}. Its file system may not support locks: "
                "set NEWEL_HOME to a local folder, or use `--ephemeral`."
            ) from error
        self._since = now()
        self.leave_note("")

    def leave_note(self, place: str) -> None:
        """Publish the owner's address, such as ``http://127.0.0.1:8101``, for the error messages of other processes. It must
        contain no secret.
        """
        note = msgspec.json.encode(_Note(os.getpid(), self._since, place[:200]))
        with contextlib.suppress(OSError):  # only an error message depends on it
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, note, 0)

    def release(self) -> None:
        os.close(self._fd)


def unusable(path: Path, error: OSError) -> EngineError:
    return EngineError(
        f"{path} cannot be used: {error.strerror}. Set NEWEL_HOME to a writable folder, or use `--ephemeral`."
    )


def _holder(fd: int) -> str:
    try:
        note = msgspec.json.decode(os.pread(fd, _MAX_NOTE, 0), type=_Note)
    except (OSError, ValueError, msgspec.DecodeError):
        return "another Newel"
    place = f" at {note.place}" if note.place else ""
    if note.pid == os.getpid():
        return f"this process already{place} (since {note.since})"
    return f"another Newel{place} (pid {note.pid}, since {note.since})"
