"""The SQLite file of a ledger: its lock, its transactions, and its errors. Only the modules of this package write SQL."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from newel.review.store.schema import FILE, LEDGER, LedgerBusy, LedgerError, unpack
from newel.storage.file_lock import lock
from newel.storage.files import PRIVATE_FILE, make_private
from newel.storage.sqlite import BUSY_TIMEOUT_S, connect, make_file, roll_back

LOCK: Final = "ledger.lock"

_CHECKPOINT_PAGES: Final = 4096
"""Pages of 4 KiB in the log before they are moved into the file, which waits for the disk twice. Four times SQLite's default, as the
first look at a project writes 100 MB.
"""


@contextmanager
def sole_user(folder: Path) -> Generator[None]:
    """Inside, no other process can open the ledger in a folder. Raises ``LedgerBusy`` if one has it open."""
    lock_file = _open_lock(folder)
    try:
        lock(lock_file, wait=False)
        yield
    except BlockingIOError as error:
        raise in_use(folder) from error
    finally:
        os.close(lock_file)


def in_use(folder: Path | None) -> LedgerBusy:
    return LedgerBusy(
        f"Another Newel has the records in {folder} open. Close it (a conversation, a workbench, an editor), and try again."
    )


def _open_lock(folder: Path) -> int:
    return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)


class LedgerDatabase:
    """Use ``open``. Methods block for as long as the disk takes; any thread may call them. Raise ``LedgerError``."""

    def __init__(self, connection: sqlite3.Connection, folder: Path | None, lock_file: int | None) -> None:
        self.folder = folder
        self._connection = connection
        self._path = str(folder / FILE) if folder else "in memory"
        self._lock_file = lock_file
        self._lock = threading.RLock()
        self._is_batch = False
        self._file = self._identity()
        self.rollbacks = 0
        """How many transactions failed: what was cached within one of them is not in the file."""

    @classmethod
    def open(cls, folder: Path | None) -> Self:
        """The database in a folder, which is created if missing; in memory for None."""
        path = folder / FILE if folder else None
        lock_file: int | None = None
        with contextlib.ExitStack() as opened:
            try:
                if folder is not None and path is not None:
                    make_private(folder)
                    make_file(path)
                    lock_file = _open_lock(folder)
                    opened.callback(os.close, lock_file)
                    lock(lock_file, shared=True)  # before anything is read: see `is_alone`
                connection = connect(path)
                opened.callback(connection.close)
                # Has no effect on a file that has tables already.
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                connection.create_function("run_of_checkpoint", 1, _run_of_checkpoint, deterministic=True)
                LEDGER.migrate(connection, str(path))
                connection.execute("PRAGMA synchronous = NORMAL")  # `writing` flushes unless told otherwise
                connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            except sqlite3.Error as error:
                raise LEDGER.failure(str(path), error) from error
            except OSError as error:
                raise LedgerError(
                    f"{path} cannot be used: {error.strerror}. Set NEWEL_HOME to another folder."
                ) from error
            opened.pop_all()
        return cls(connection, folder, lock_file)

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            if self._lock_file is not None:
                os.close(self._lock_file)
                self._lock_file = None

    def is_removed(self) -> bool:
        """Whether the file has been removed or replaced since it was opened."""
        return self._file != self._identity()

    def is_alone(self) -> bool:
        """Whether no other process has the ledger open. Call it within ``writing``: a process that opens the ledger meanwhile
        sees the result of that transaction before it can rely on anything.
        """
        if self._lock_file is None:
            return True
        try:
            # For a moment nobody holds the lock; but only writers ask, one at a time.
            lock(self._lock_file, wait=False)
        except BlockingIOError:
            return False
        finally:
            lock(self._lock_file, shared=True)
        return True

    def rewrite(self) -> None:
        """Rewrite the file, so that nothing that was deleted stays in it."""
        with self.reading() as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def batch(self, *, flush: bool = True, wait: bool = True) -> Generator[None]:
        """One transaction around several; see ``writing``. A batch within a batch is part of it."""
        with self.writing(flush=flush, wait=wait):
            outer, self._is_batch = self._is_batch, True
            try:
                yield
            finally:
                self._is_batch = outer

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        with self._lock, self._map_errors():
            yield self._connection

    @contextmanager
    def writing(self, *, flush: bool = True, wait: bool = True) -> Generator[sqlite3.Connection]:
        """A transaction. Without ``flush`` it survives the process, but not a power cut until the next one that flushes. Without
        ``wait`` it raises ``LedgerBusy`` while another thread or process uses the ledger.
        """
        if not self._lock.acquire(blocking=wait):
            raise LedgerBusy(f"Another thread is using the review ledger {self._path}.")
        try:
            with self._map_errors():
                if self._is_batch:
                    yield self._connection
                    return
                self._require_file()
                with self._settings(flush, wait):
                    self._begin_transaction(wait)
                    try:
                        yield self._connection
                        self._require_file()
                        self._connection.execute("COMMIT")
                    except BaseException:
                        self.rollbacks += 1
                        roll_back(self._connection)
                        raise
        finally:
            self._lock.release()

    def _require_file(self) -> None:
        if self.is_removed():
            raise LedgerError(
                f"{self._path}, the record of changes here, was removed or replaced by something other than Newel."
            )

    def _identity(self) -> tuple[int, int] | None:
        """What identifies the file; None if there is none."""
        try:
            status = os.stat(self._path) if self.folder else None  # noqa: PTH116 — asked for each transaction
        except OSError:
            return None
        return (status.st_dev, status.st_ino) if status else None

    @contextmanager
    def _settings(self, flush: bool, wait: bool) -> Generator[None]:
        """How the connection commits and begins, for one transaction."""
        try:
            if flush:
                self._connection.execute("PRAGMA synchronous = FULL")
            if not wait:
                self._connection.execute("PRAGMA busy_timeout = 0")
            yield
        finally:
            if flush:
                self._connection.execute("PRAGMA synchronous = NORMAL")
            if not wait:
                self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}")

    def _begin_transaction(self, wait: bool) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if wait or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            raise LedgerBusy(f"Another process is writing to the review ledger {self._path}.") from error

    @contextmanager
    def _map_errors(self) -> Generator[None]:
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise LedgerError(f"The review ledger {self._path} was closed.") from error
        except sqlite3.Error as error:
            raise LEDGER.failure(self._path, error) from error


class _RunRow(msgspec.Struct):
    run: str


def _run_of_checkpoint(data: Any) -> str:
    """SQL function of the migration that gave checkpoints a column for their run."""
    return msgspec.json.decode(unpack(data), type=_RunRow).run
