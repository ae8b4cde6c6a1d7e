"""One owner of a data directory, by a lock on a file of its own.

The file stays when the lock is released: deleting it would let two processes believe that they hold the lock.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from newel.jobs.engine import EngineError
from newel.storage.file_lock import NO_LOCKS, describe_holder, lock, read_holder, write_holder
from newel.storage.files import PRIVATE_FILE

LOCK = "owner.lock"


class DirectoryLock:
    """The right to a directory, from the constructor to ``release`` or the process's end.

    Raises ``EngineError`` if another process has it, or another owner in this one.
    """

    def __init__(self, directory: Path) -> None:
        try:
            self._fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
        except OSError as error:
            raise unusable(directory, error) from error
        try:
            lock(self._fd, wait=False)
        except OSError as error:
            reason = f"The folder {directory} cannot be locked: {error.strerror}. {NO_LOCKS}"
            if isinstance(error, BlockingIOError):
                reason = (
                    f"The runs in {directory} are kept by {describe_holder(read_holder(self._fd))}. "
                    "Use that one or end it first, or use --ephemeral, which saves nothing."
                )
            os.close(self._fd)
            raise EngineError(reason) from error
        self._since = datetime.now(UTC)
        self.leave_note("")

    def leave_note(self, place: str) -> None:
        """Tell those who are refused where this owner can be reached, for example ``http://127.0.0.1:8101``. It is
        shown to them unchanged, so it must hold no secret.
        """
        write_holder(self._fd, place, self._since)

    def release(self) -> None:
        os.close(self._fd)


def unusable(path: Path, error: OSError) -> EngineError:
    return EngineError(
        f"{path} cannot be used: {error.strerror}. "
        "Set NEWEL_HOME to a folder that can be written to, or use --ephemeral."
    )
