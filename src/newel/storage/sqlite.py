"""Newel's SQLite files: connections, migrations and error messages.

The version of a format is SQLite's ``user_version``; ``application_id`` identifies the program. Any thread may use a
connection, one at a time. Commits are flushed to the disk.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from newel.agent.errors import NewelError
from newel.storage.files import PRIVATE_FILE

BUSY_TIMEOUT_S: Final = 5.0
"""How long a connection waits for another process that is writing."""

_DAMAGED = "it is damaged. Move the folder away to start with a new one; {kept}"
_UNWRITABLE = (
    "it cannot be written. Check the folder's permissions, set NEWEL_HOME, or use `newel --ephemeral`"
)
_PROBLEMS = {
    sqlite3.SQLITE_FULL: "the disk is full. Acknowledged data is safe; free some space and try again",
    sqlite3.SQLITE_IOERR: "the disk reports an error (it may be full, or failing). Acknowledged data is safe; "
    "try again when the disk works",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_READONLY: _UNWRITABLE,
    sqlite3.SQLITE_CANTOPEN: _UNWRITABLE,
    sqlite3.SQLITE_PERM: _UNWRITABLE,
    sqlite3.SQLITE_BUSY: "another program holds it locked. Close that program and try again",
}


class Format:
    """A kind of file. ``name`` is its name in messages, ``kept`` describes the data that is not lost with it. ``migrations``
    lead from each version to the next, the first from an empty file: only ever append to them. ``error`` makes the exceptions.
    """

    def __init__(
        self,
        name: str,
        application_id: int,
        migrations: Sequence[Sequence[str]],
        *,
        error: Callable[[str], NewelError],
        kept: str,
    ) -> None:
        self.name = name
        self.application_id = application_id
        self.migrations = migrations
        self._error = error
        self._kept = kept

    def failure(self, path: str, error: sqlite3.Error) -> NewelError:
        """Explain an error of SQLite: what, where, what to do."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # higher bits only hold details
        problem = _PROBLEMS.get(code, "SQLite reports an error").format(kept=self._kept)
        return self._error(f"The {self.name} {path} cannot be used: {problem} ({error}).")

    def check(self, connection: sqlite3.Connection, path: str) -> int:
        """Return the version of the file's format. Raises if it is newer than this Newel, or another program's file."""
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if owner != self.application_id and (owner or version or tables):
            raise self._error(
                f"The file {path} is a database of another program. Move it away, or set NEWEL_HOME."
            )
        if version > len(self.migrations):
            raise self._error(
                f"The {self.name} {path} was written by a newer Newel (format {version}; this one supports up to "
                f"{len(self.migrations)}). Install the newer one, choose another folder with NEWEL_HOME, or use `newel --ephemeral`."
            )
        return version

    def migrate(self, connection: sqlite3.Connection, path: str) -> None:
        """Migrate a file, each version in a transaction; several processes may do so at once. Raises the errors of ``check``
        and ``sqlite3.Error``.
        """
        if self.check(connection, path) == 0:
            connection.execute("PRAGMA journal_mode = WAL")
        while (version := self.check(connection, path)) < len(self.migrations):
            connection.execute("BEGIN IMMEDIATE")
            try:
                if self.check(connection, path) == version:  # else another process was faster
                    for statement in self.migrations[version]:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {self.application_id}")
                    connection.execute(f"PRAGMA user_version = {version + 1}")
                connection.execute("COMMIT")
            except BaseException:
                roll_back(connection)
                raise


def connect(path: Path | None, *, read_only: bool = False) -> sqlite3.Connection:
    """Connect to a file, or to memory for None. Raises ``sqlite3.Error``."""
    connection = sqlite3.connect(
        path or ":memory:", timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    pragmas = ["query_only = ON"] if read_only else []
    # On macOS only `fullfsync` flushes the disk's cache; elsewhere it has no effect.
    pragmas += ["synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON"]
    pragmas += [f"journal_size_limit = {64 << 20}"]
    try:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def make_file(path: Path) -> None:
    """Create a private file unless it exists; SQLite creates its helper files with the same mode."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
    try:
        os.fchmod(fd, PRIVATE_FILE)
    finally:
        os.close(fd)


def roll_back(connection: sqlite3.Connection) -> None:
    """Roll back a failed transaction, unless SQLite did. If that fails, the next rollback does it."""
    if connection.in_transaction:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
