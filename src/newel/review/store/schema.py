"""The tables of a ledger's file, and the encoding of their values: JSON, compressed if it is long, and blobs by
their hash.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sqlite3
import zlib
from collections.abc import Sequence
from typing import Final

import msgspec

from newel.review.model.file_review import ReviewError
from newel.review.model.history import HistoryEntry
from newel.storage.sqlite import Format

FILE: Final = "ledger.db"

MIGRATIONS: tuple[Sequence[str], ...] = (
    (
        # A review's base is stored separately, as lines: it changes rarely, and may be long. `base` is its unique name.
        """
        CREATE TABLE files (
            path TEXT PRIMARY KEY, rev INTEGER NOT NULL, base TEXT NOT NULL, review BLOB NOT NULL
        ) WITHOUT ROWID
        """,
        "CREATE TABLE entries (n INTEGER PRIMARY KEY, path TEXT NOT NULL, run TEXT NOT NULL, data BLOB NOT NULL)",
        "CREATE INDEX entries_by_path ON entries (path, n)",
        "CREATE INDEX entries_by_run ON entries (run, n)",
        "CREATE TABLE checkpoints (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, data BLOB NOT NULL)",
        "CREATE TABLE intents (id TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL)",
    ),
    (
        # A base that was replaced is not needed: the journal has the changes.
        "CREATE TABLE bases (path TEXT PRIMARY KEY, name TEXT NOT NULL, data BLOB NOT NULL)",
        "INSERT INTO bases SELECT path, base, data FROM files JOIN blobs ON sha256 = base",
        "ALTER TABLE entries ADD COLUMN kind TEXT NOT NULL DEFAULT ''",
        "UPDATE entries SET kind = json_extract(CAST(data AS TEXT), '$.kind')",
    ),
    # The head of a file's lines may denote a link, a folder or a pipe: a Newel that knows only files must not open this.
    (),
    (
        "ALTER TABLE checkpoints ADD COLUMN run TEXT NOT NULL DEFAULT ''",
        "UPDATE checkpoints SET run = run_of_checkpoint(data)",
        "CREATE INDEX checkpoints_by_run ON checkpoints (run, n)",
        # Effects that have begun and are not recorded. `owner` is the process, by the name of its lock file.
        "CREATE TABLE effects (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, data BLOB NOT NULL)",
    ),
)

HASH: Final = re.compile(rb"[0-9a-f]{64}")

PACKED: Final = 4096
"""JSON of at least this many bytes is compressed."""


class LedgerError(ReviewError):
    """The ledger's file cannot be used."""


class LedgerBusy(LedgerError):
    """Another thread or process uses the ledger, and the caller asked not to wait for it."""


LEDGER = Format(
    "review ledger",
    0x6E65776D,
    MIGRATIONS,
    error=LedgerError,
    kept="your files stay as they are",
)


def hashes_in(data: bytes) -> set[str]:
    """All strings in JSON that look like a SHA-256, and so may name a blob."""
    return {digest.decode() for digest in HASH.findall(data)}


def pack(data: bytes) -> bytes:
    """Encode JSON for storage: long JSON is compressed."""
    return data if len(data) < PACKED else zlib.compress(data, 1)


def unpack(data: bytes) -> bytes:
    """Raises ``LedgerError`` for damaged data."""
    if data[:1] in {b"{", b"["}:
        return data
    with contextlib.suppress(zlib.error):
        return zlib.decompress(data)
    raise LedgerError("A part of the review ledger is damaged.")


def read_entry(data: bytes) -> HistoryEntry:
    return msgspec.json.decode(unpack(data), type=HistoryEntry)


def put(
    connection: sqlite3.Connection, blobs: Sequence[bytes], names: Sequence[str] | None = None
) -> Sequence[str]:
    """Store data; returns their names, which the caller may know."""
    names = names or [hashlib.sha256(data).hexdigest() for data in blobs]
    query = "SELECT sha256 FROM blobs WHERE sha256 IN (SELECT value FROM json_each(?))"
    existing = {row[0] for row in connection.execute(query, (msgspec.json.encode(names).decode(),))}
    new = {name: data for name, data in zip(names, blobs, strict=True) if name not in existing}
    # Sorted, as the index is: each of its pages is changed once.
    rows = ((name, len(data), zlib.compress(data, 1)) for name, data in sorted(new.items()))
    connection.executemany("INSERT INTO blobs VALUES (?, ?, ?)", rows)
    return names


def blob(connection: sqlite3.Connection, sha256: str) -> bytes:
    row = connection.execute("SELECT data FROM blobs WHERE sha256 = ?", (sha256,)).fetchone()
    if row is None:
        raise LedgerError(f"The review ledger has no data of the hash {sha256}.")
    with contextlib.suppress(zlib.error):
        return zlib.decompress(row[0])
    raise LedgerError(f"The data of the hash {sha256} in the review ledger is damaged.")
