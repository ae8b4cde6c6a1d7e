"""Durable appends to a session file."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from newel.agent.errors import SessionError, SessionInUse
from newel.session.file_format import BLOCK
from newel.session.paths import not_a_session
from newel.storage.file_lock import (
    NO_LOCKS,
    LockHolder,
    describe_holder,
    lock_unless_held,
    read_holder,
    unlock,
    write_holder,
)
from newel.storage.files import PRIVATE_FILE, open_regular

if TYPE_CHECKING:
    from newel.session.reader import StoredSession


class Appender:
    """A session file, open and locked, to which whole lines are appended.

    When ``append`` returns, the lines survive the death of this process; ``sync`` writes them to the disk. A partial line that
    a crash or a full disk left at the end is moved to ``<file>.torn`` before the next line is written.

    All methods raise ``SessionError``, with the path and the reason.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self._path = path
        self._whole = 0
        self._unended = False
        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT | os.O_EXCL if create else 0)
        try:
            self._fd = os.open(path, flags, PRIVATE_FILE)
        except OSError as error:
            raise SessionError(
                f"The session file {path} cannot be opened for writing: {error.strerror}. "
                "`newel --ephemeral` works without saving."
            ) from error
        try:
            lock_unless_held(self._fd, lambda: _noted_holder(path))
        except OSError as error:
            os.close(self._fd)
            if isinstance(error, BlockingIOError):
                session_id = path.stem.rpartition("_")[2]
                raise SessionInUse(session_id, f"in {describe_holder(_noted_holder(path))}") from error
            raise SessionError(
                f"The session {path} cannot be locked: {error.strerror}. {NO_LOCKS}"
            ) from error
        with contextlib.suppress(OSError):  # only the message of a refusal depends on it
            _note_holder(path)

    def read(self) -> StoredSession:
        """Read the file; later lines are appended after its whole lines. Raises ``SessionError`` if it is not a session."""
        from newel.session.reader import StoredSession

        stored = StoredSession(self._path)
        try:
            with open(self._fd, "rb", buffering=BLOCK, closefd=False) as stream:
                stored.read(stream)
        except OSError as error:
            raise SessionError(f"The session file {self._path} cannot be read: {error.strerror}.") from error
        if not stored.is_session:
            raise not_a_session(self._path)
        self._whole, self._unended = stored.whole, stored.unended
        return stored

    def append(self, lines: bytes) -> None:
        """Append lines, all or nothing."""
        try:
            self._repair()
            self._write(b"\n" + lines if self._unended else lines)
        except OSError as error:
            raise SessionError(
                f"The session could not be saved to {self._path}: {error.strerror}. "
                "Earlier messages are saved; the last message is not."
            ) from error
        self._whole += len(lines) + self._unended
        self._unended = False

    def sync(self) -> None:
        """Flush everything to the disk."""
        try:
            getattr(os, "fdatasync", os.fsync)(self._fd)  # macOS has no fdatasync
        except OSError as error:
            raise SessionError(
                f"The session could not be saved to {self._path}: {error.strerror}."
            ) from error

    def close(self) -> None:
        """Sync and unlock."""
        try:
            self.sync()
        finally:
            self.release()

    def release(self) -> None:
        """Unlock and close the file."""
        with contextlib.suppress(OSError):
            _lock_path(self._path).unlink()
        unlock(self._fd)
        os.close(self._fd)

    def delete(self) -> None:
        """Delete the file, and what was moved from it. Only ``release`` may follow."""
        try:
            self._path.unlink(missing_ok=True)
            _torn_path(self._path).unlink(missing_ok=True)
        except OSError as error:
            raise SessionError(f"The session {self._path} cannot be deleted: {error.strerror}.") from error

    def _write(self, lines: bytes) -> None:
        data = memoryview(lines)
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            with contextlib.suppress(OSError):  # otherwise it is truncated before the next line
                os.ftruncate(self._fd, self._whole)
            raise

    def _repair(self) -> None:
        state = os.fstat(self._fd)
        if state.st_nlink == 0:
            raise SessionError(
                f"The session file {self._path} was deleted or replaced while it was open; "
                "nothing more can be saved to it. Start a new session."
            )
        if state.st_size > self._whole:
            self._save_tail(state.st_size)
            os.ftruncate(self._fd, self._whole)
        elif state.st_size < self._whole:  # another program truncated it
            self._whole, self._unended = state.st_size, state.st_size > 0

    def _save_tail(self, size: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        beside = os.open(_torn_path(self._path), flags, PRIVATE_FILE)
        starts = range(self._whole, size, BLOCK)
        with open(beside, "ab") as torn:  # noqa: PTH123 - the descriptor refuses a planted symlink
            torn.writelines(os.pread(self._fd, min(BLOCK, size - start), start) for start in starts)
            torn.write(b"\n")


def writer_elsewhere(path: Path) -> LockHolder | None:
    """The other process that writes to a session, as far as can be seen without taking its lock."""
    holder = _noted_holder(path)
    return holder if holder and holder.pid != os.getpid() and holder.is_running else None


def _torn_path(path: Path) -> Path:
    return path.with_name(path.name + ".torn")


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _note_holder(path: Path) -> None:
    note = os.open(_lock_path(path), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
    write_holder(note)
    os.close(note)


def _noted_holder(path: Path) -> LockHolder | None:
    try:
        with open_regular(_lock_path(path)) as note:
            return read_holder(note.fileno())
    except OSError:
        return None
