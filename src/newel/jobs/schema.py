"""The journal's file: how it is opened, what stands in it, how it came to be so, and what can be wrong with it.

The version of the schema is SQLite's ``user_version``; ``application_id`` says that the file is Newel's.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from newel.jobs.engine import EngineError
from newel.jobs.owner import PRIVATE_FILE

FILE = "journal.db"
APPLICATION_ID = 0x6E65776C
"""``newl``"""

MIGRATIONS: tuple[Sequence[str], ...] = (
    (
        # The parameters stand last, so that no read or update of the rest touches them.
        """
        CREATE TABLE jobs (
            n INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            key TEXT UNIQUE,
            kind TEXT NOT NULL,
            queue TEXT NOT NULL,
            state TEXT NOT NULL,
            attempts INTEGER NOT NULL,
            not_before REAL NOT NULL,
            cancelled TEXT,
            reason TEXT NOT NULL,
            created TEXT NOT NULL,
            updated TEXT NOT NULL,
            params BLOB NOT NULL
        )
        """,
        "CREATE INDEX jobs_by_state ON jobs (state, queue, n)",
        """
        CREATE TABLE events (
            job INTEGER NOT NULL,
            seq INTEGER NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (job, seq)
        ) WITHOUT ROWID
        """,
    ),
)
"""Each makes the next version of the one before; the first begins with an empty file. Only ever add to them."""

_DAMAGED = (
    "it is damaged. Move the folder away to begin with a new one; the sessions are kept elsewhere and stay"
)
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


def failure(path: str, error: sqlite3.Error) -> EngineError:
    """What SQLite says, in words: what, where, what to do."""
    code = (
        getattr(error, "sqlite_errorcode", 0) & 0xFF
    )  # the rest of the bits says more than anybody can act on
    words = _WORDS.get(code, "SQLite refuses")
    return EngineError(f"The journal {path} cannot be used: {words} ({error}).")


def connect(path: Path | None, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection to the journal, in memory for None. Any thread may use it, one at a time. Raises ``sqlite3.Error``."""
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
    """Make sure that the journal is there for this user alone; SQLite gives its helper files the same mode."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
    try:
        os.fchmod(fd, PRIVATE_FILE)
    finally:
        os.close(fd)


def check(connection: sqlite3.Connection, path: str, *, newest: int = len(MIGRATIONS)) -> int:
    """The version of the journal's schema. Raises ``EngineError`` if it is newer than this Newel, or no journal."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if owner != APPLICATION_ID and (owner or version or tables):
        raise EngineError(
            f"The file {path} is a database of another program. Move it away, or set NEWEL_HOME."
        )
    if version > newest:
        raise EngineError(
            f"The journal {path} is a newer Newel's (its format is {version}, this one knows {newest}). "
            "Install the newer one, choose another folder with NEWEL_HOME, or use --ephemeral."
        )
    return version


def migrate(
    connection: sqlite3.Connection, path: str, migrations: Sequence[Sequence[str]] = MIGRATIONS
) -> None:
    """Bring the journal up to date, one version after the other, each whole or not at all."""
    version = check(connection, path, newest=len(migrations))
    connection.execute("PRAGMA journal_mode = WAL")
    for number, statements in enumerate(migrations[version:], version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except sqlite3.Error:
            roll_back(connection)
            raise


def roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction that failed. SQLite may have done so by itself, and a rollback that fails leaves it to the
    next one.
    """
    if connection.in_transaction:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
