"""SQLite files of Newel's own: how they are opened, how their format came to be so, and what can be wrong with them.

The version of a format is SQLite's ``user_version``; ``application_id`` says whose the file is. A connection may be used by
any thread, one at a time. What was committed has been flushed to the disk.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from newel.agent.errors import NewelError
from newel.storage.files import PRIVATE_FILE

_DAMAGED = "it is damaged. Move the folder away to begin with a new one; {kept}"
_UNWRITABLE = "it cannot be written. Look at the folder's permissions, set NEWEL_HOME, or use --ephemeral"
_WORDS = {
    sqlite3.SQLITE_FULL: "the disk is full. What was acknowledged is safe; make room, and it works again",
    sqlite3.SQLITE_IOERR: "the disk refuses (it may be full, or failing). What was acknowledged is safe; "
    "when the disk works, it works again",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_READONLY: _UNWRITABLE,
    sqlite3.SQLITE_CANTOPEN: _UNWRITABLE,
    sqlite3.SQLITE_PERM: _UNWRITABLE,
    sqlite3.SQLITE_BUSY: "another program holds it locked. Close that program and try again",
}


class Format:
    """A kind of file. ``name`` is what people call it, ``kept`` says what is not lost with it; ``migrations`` make each version
    of the one before, the first of an empty file: only ever add to them. ``error`` is what is raised.
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
        """What SQLite says, in words: what, where, what to do."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of the bits is nothing to act on
        words = _WORDS.get(code, "SQLite refuses").format(kept=self._kept)
        return self._error(f"The {self.name} {path} cannot be used: {words} ({error}).")

    def check(self, connection: sqlite3.Connection, path: str) -> int:
        """The version of the file's format. Raises if it is newer than this Newel, or another program's."""
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if owner != self.application_id and (owner or version or tables):
            raise self._error(
                f"The file {path} is a database of another program. Move it away, or set NEWEL_HOME."
            )
        if version > len(self.migrations):
            raise self._error(
                f"The {self.name} {path} is a newer Newel's (its format is {version}, this one knows "
                f"{len(self.migrations)}). Install the newer one, choose another folder with NEWEL_HOME, or use --ephemeral."
            )
        return version

    def migrate(self, connection: sqlite3.Connection, path: str) -> None:
        """Bring a file up to date, one version after the other, each whole or not at all. Several processes may do so at
        once. Raises what ``check`` does, and ``sqlite3.Error``.
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
    """A connection to a file, to memory alone for None. Raises ``sqlite3.Error``."""
    connection = sqlite3.connect(
        path or ":memory:", timeout=5.0, isolation_level=None, check_same_thread=False
    )
    pragmas = ["query_only = ON"] if read_only else []
    # Only `fullfsync` reaches the disk itself on macOS; elsewhere it says nothing.
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
    """Make sure that a file is there for this user alone; SQLite gives its helper files the same mode."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
    try:
        os.fchmod(fd, PRIVATE_FILE)
    finally:
        os.close(fd)


def roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction that failed. SQLite may have done so by itself, and a rollback that fails leaves it to the
    next one.
    """
    if connection.in_transaction:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
