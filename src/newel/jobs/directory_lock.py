"""One owner of a data directory, by ``flock`` on a file of its own.

The kernel releases such a lock when its owner dies, however it dies. Who the owner is stands in the file, for the
words of the refusal only; the file stays, for to delete it would let two believe that they hold it.
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
    """The right to a directory, from the constructor to ``release`` or the process's end.

    Raises ``EngineError`` if another process has it, or another owner in this one.
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
                f"The runs in {directory} are kept by {holder}. "
                "Use that one or end it first; --ephemeral starts beside it and keeps nothing."
            ) from error
        except OSError as error:
            os.close(self._fd)
            raise EngineError(
                f"The folder {directory} cannot be locked: {error.strerror}. Its file system may not know locks; "
                "set NEWEL_HOME to a local folder, or use --ephemeral."
            ) from error
        self._since = now()
        self.leave_note("")

    def leave_note(self, place: str) -> None:
        """Say where this owner is to be found, say ``http://127.0.0.1:8101``, to those who are refused. It is shown to
        them as it is, so it must hold no secret.
        """
        note = msgspec.json.encode(_Note(os.getpid(), self._since, place[:200]))
        with contextlib.suppress(OSError):  # only the words of a refusal depend on it
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, note, 0)

    def release(self) -> None:
        os.close(self._fd)


def unusable(path: Path, error: OSError) -> EngineError:
    return EngineError(
        f"{path} cannot be used: {error.strerror}. "
        "Set NEWEL_HOME to a folder that can be written to, or use --ephemeral."
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
