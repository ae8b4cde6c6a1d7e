"""Exclusive lock on a data directory, by a lock on a file in it.

The kernel releases the lock when its owner dies. The file names the owner, for error messages only. It is never deleted:
otherwise two processes could each lock a file of that name.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from newel.jobs.engine import EngineError
from newel.storage.file_lock import (
    NO_LOCKS,
    LockHolder,
    describe_holder,
    lock,
    lock_unless_held,
    read_holder,
    write_holder,
)
from newel.storage.files import PRIVATE_FILE

LOCK = "owner.lock"


class DirectoryLock:
    """Holds a directory from the constructor to ``release`` or the end of the process.

    Raises ``EngineError`` if another process, or another owner in this one, holds it.
    """

    def __init__(self, directory: Path) -> None:
        try:
            self._fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
        except OSError as error:
            raise unusable_directory(directory, error) from error
        try:
            lock_unless_held(self._fd, lambda: read_holder(self._fd))
        except OSError as error:
            reason = f"The folder {directory} cannot be locked: {error.strerror}. {NO_LOCKS}"
            if isinstance(error, BlockingIOError):
                reason = (
                    f"{directory} is in use by {describe_holder(read_holder(self._fd))}. "
                    "Use that one, or stop it first; `newel web --ephemeral` starts another that saves nothing."
                )
            os.close(self._fd)
            raise EngineError(reason) from error
        self._since = datetime.now(UTC)
        self.set_holder_info("")

    def set_holder_info(self, place: str) -> None:
        """Publish the owner's address, such as ``http://127.0.0.1:8101``, for the error messages of other processes. It must
        contain no secret.
        """
        write_holder(self._fd, place, self._since)

    def release(self) -> None:
        os.close(self._fd)


def find_holder(directory: Path) -> LockHolder | None:
    """The process that holds a directory now; None if it is free, or does not tell."""
    try:
        file = os.open(directory / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        lock(file, wait=False, shared=True)
    except BlockingIOError:
        return read_holder(file)
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(file)
    return None


def unusable_directory(path: Path, error: OSError) -> EngineError:
    return EngineError(
        f"{path} cannot be used: {error.strerror}. Set NEWEL_HOME to a writable folder, or use `newel --ephemeral`."
    )
