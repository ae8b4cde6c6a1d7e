"""The ledger of a project, kept: each file's review, the journal of its changes, checkpoints, and the texts behind them.

    with Ledger.open(home / "review" / project) as ledger:
        review = ledger.change("src/a.py", "accept", lambda now: accept(now, "h_1"), rev=4).review

One SQLite file that several processes may have open: a terminal, a workbench and ``newel undo`` see the same ledger. Every
change is one transaction; what a method returned is on the disk. A review stands there as its fold beside its journal, in
the same transaction, so that to read one costs nothing however long its history is.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import threading
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from newel.agent.messages import Wire
from newel.review.history import MOVES_BASE, Entry, Kind, entry, redo, undo
from newel.review.ledger import FileReview, Lines, ReviewError, StaleRevision
from newel.session.database import Format, connect, make_file, roll_back
from newel.session.locate import make_private

FILE = "ledger.db"

MIGRATIONS: tuple[Sequence[str], ...] = (
    (
        # A review's base stands among the blobs, as lines: it changes seldom, and may be long.
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
)


class LedgerError(ReviewError):
    """The ledger's file cannot be used."""


LEDGER = Format(
    "review ledger",
    0x6E65776D,
    MIGRATIONS,
    error=LedgerError,
    kept="your files stay as they are",
)


class Before(Wire, frozen=True, kw_only=True):
    """A file as a checkpoint has it: the blob of its bytes (empty for no file), and its permission bits."""

    path: str
    blob: str
    mode: int


class Checkpoint(Wire, frozen=True, kw_only=True):
    """How files were before a run of an agent changed them. ``files`` grows as the run touches more."""

    id: str
    created: str
    run: str
    session: str = ""
    title: str = ""
    files: tuple[Before, ...] = ()


class Intent(Wire, frozen=True, kw_only=True):
    """A save that is under way, over one file or several: what a crash in its midst leaves to be finished."""

    id: str
    files: tuple[Saving, ...]


class Saving(Wire, frozen=True, kw_only=True):
    """The hunks ``ids`` of revision ``rev`` go into a file, whose bytes then have the hash ``after`` (``text_hash``)."""

    path: str
    rev: int
    ids: tuple[str, ...]
    before: str
    after: str


class Changed(NamedTuple):
    review: FileReview
    entry: Entry | None
    """None where the change changed nothing."""


class Ledger:
    """Use ``open``. Methods block for as long as the disk takes; any thread may call them. Raise ``LedgerError``."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._lock = threading.RLock()
        self._bases: dict[str, Lines] = {}

    @classmethod
    def open(cls, folder: Path | None) -> Self:
        """The ledger in a folder, which is made if need be; of memory alone for None."""
        path = folder / FILE if folder else None
        try:
            if folder is not None and path is not None:
                make_private(folder)
                make_file(path)
            connection = connect(path)
            LEDGER.migrate(connection, str(path))
        except sqlite3.Error as error:
            raise LEDGER.failure(str(path), error) from error
        except OSError as error:
            raise LedgerError(
                f"{path} cannot be used: {error.strerror}. Set NEWEL_HOME to another folder."
            ) from error
        return cls(connection, str(path))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- reviews ----------------------------------------------------------------------------------

    def paths(self) -> list[str]:
        """The files that the ledger knows of, by their names."""
        with self._reading() as connection:
            return [row[0] for row in connection.execute("SELECT path FROM files ORDER BY path")]

    def get(self, path: str) -> FileReview:
        """A file's review; one that was never heard of has no base yet, and revision 0."""
        with self._reading() as connection:
            return self._get(connection, path)

    def change(
        self,
        path: str,
        kind: Kind,
        make: Callable[[FileReview], FileReview],
        *,
        rev: int | None = None,
        hunks: tuple[str, ...] = (),
        run: str = "",
    ) -> Changed:
        """Put what ``make`` makes of a review in its place. ``rev`` is the revision that the caller knows. Raises
        ``StaleRevision``, and what ``make`` raises; then nothing has changed.
        """

        def change(connection: sqlite3.Connection, before: FileReview) -> tuple[FileReview, Entry | None]:
            del connection
            after = make(before)
            return after, entry(kind, before, after, hunks=hunks, run=run) if after is not before else None

        return self._change(path, rev, change)

    def undo(self, path: str, *, rev: int | None = None) -> Changed:
        """Take the latest change back. Raises ``NothingToUndo`` and ``StaleRevision``."""
        return self._change(path, rev, lambda connection, now: undo(now, _since_base(connection, path)))

    def redo(self, path: str, *, rev: int | None = None) -> Changed:
        """Make the change again that was last taken back. Raises as ``undo``."""
        return self._change(path, rev, lambda connection, now: redo(now, _since_base(connection, path)))

    def entries(self, *, path: str | None = None, run: str | None = None) -> list[Entry]:
        """The journal, in its order: all of it, a file's, or a run's."""
        with self._reading() as connection:
            return _entries(connection, path, run)

    def _change(
        self,
        path: str,
        rev: int | None,
        change: Callable[[sqlite3.Connection, FileReview], tuple[FileReview, Entry | None]],
    ) -> Changed:
        with self._writing() as connection:
            before = self._get(connection, path)
            if rev is not None and rev != before.rev:
                raise StaleRevision(
                    f"{path} is at revision {before.rev}, and this change was made for {rev}. Read it anew and try again."
                )
            after, made = change(connection, before)
            if made is None:
                return Changed(before, None)
            base = self._put_base(connection, after)
            small = msgspec.json.encode(msgspec.structs.replace(after, base=()))
            connection.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", (path, after.rev, base, small)
            )
            connection.execute(
                "INSERT INTO entries (path, run, data) VALUES (?, ?, ?)",
                (path, made.run, msgspec.json.encode(made)),
            )
        return Changed(after, made)

    def _get(self, connection: sqlite3.Connection, path: str) -> FileReview:
        row = connection.execute("SELECT base, review FROM files WHERE path = ?", (path,)).fetchone()
        if row is None:
            return FileReview(path=path)
        base, small = row
        if base not in self._bases:
            data = _blob(connection, base)
            self._bases = {
                base: msgspec.json.decode(data, type=tuple[str, ...])
            }  # the latest is the one asked for next
        return msgspec.structs.replace(msgspec.json.decode(small, type=FileReview), base=self._bases[base])

    def _put_base(self, connection: sqlite3.Connection, after: FileReview) -> str:
        """The name of a review's base among the blobs. Most changes leave it as it was."""
        row = connection.execute("SELECT base FROM files WHERE path = ?", (after.path,)).fetchone()
        if row is not None and self._bases.get(row[0]) is after.base:
            return str(row[0])
        name = _put(connection, msgspec.json.encode(after.base))
        self._bases = {name: after.base}
        return name

    # -- checkpoints and intents ------------------------------------------------------------------

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint, or what has become of one of the same id."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO checkpoints (id, data) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET data = excluded.data",
                (checkpoint.id, msgspec.json.encode(checkpoint)),
            )

    def checkpoints(self) -> list[Checkpoint]:
        """All of them, the latest first."""
        with self._reading() as connection:
            rows = connection.execute("SELECT data FROM checkpoints ORDER BY n DESC")
            return [msgspec.json.decode(row[0], type=Checkpoint) for row in rows]

    def begin_saving(self, intent: Intent) -> None:
        """Say what is about to be written, before it is."""
        with self._writing() as connection:
            connection.execute("INSERT INTO intents VALUES (?, ?)", (intent.id, msgspec.json.encode(intent)))

    def end_saving(self, intent_id: str) -> None:
        with self._writing() as connection:
            connection.execute("DELETE FROM intents WHERE id = ?", (intent_id,))

    def intents(self) -> list[Intent]:
        """Saves that were begun and not ended."""
        with self._reading() as connection:
            rows = connection.execute("SELECT data FROM intents ORDER BY id")
            return [msgspec.json.decode(row[0], type=Intent) for row in rows]

    # -- blobs ------------------------------------------------------------------------------------

    def put_blobs(self, blobs: Sequence[bytes]) -> list[str]:
        """Keep pieces of data, in one transaction; returns their SHA-256 in hexadecimal."""
        with self._writing() as connection:
            return [_put(connection, data) for data in blobs]

    def blob(self, sha256: str) -> bytes:
        """Raises ``LedgerError`` if there is none of that hash."""
        with self._reading() as connection:
            return _blob(connection, sha256)

    # -- transactions -----------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection]:
        with self._lock, self._in_words():
            yield self._connection

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        with self._lock, self._in_words():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                roll_back(self._connection)
                raise

    @contextmanager
    def _in_words(self) -> Generator[None]:
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise LedgerError(f"The review ledger {self._path} was closed.") from error
        except sqlite3.Error as error:
            raise LEDGER.failure(self._path, error) from error


def _entries(connection: sqlite3.Connection, path: str | None = None, run: str | None = None) -> list[Entry]:
    wanted: dict[str, Any] = {"path": path, "run": run}
    rows = connection.execute(
        "SELECT data FROM entries WHERE (:path IS NULL OR path = :path) AND (:run IS NULL OR run = :run) ORDER BY n",
        wanted,
    )
    return [msgspec.json.decode(row[0], type=Entry) for row in rows]


def _since_base(connection: sqlite3.Connection, path: str) -> list[Entry]:
    """What the journal of a file says since its base is what it is."""
    recent: list[Entry] = []
    for (data,) in connection.execute("SELECT data FROM entries WHERE path = ? ORDER BY n DESC", (path,)):
        latest = msgspec.json.decode(data, type=Entry)
        if latest.kind in MOVES_BASE:
            break
        recent.append(latest)
    return recent[::-1]


def _put(connection: sqlite3.Connection, data: bytes) -> str:
    name = hashlib.sha256(data).hexdigest()
    if connection.execute("SELECT 1 FROM blobs WHERE sha256 = ?", (name,)).fetchone() is None:
        packed = zlib.compress(data, 1)
        connection.execute("INSERT INTO blobs VALUES (?, ?, ?)", (name, len(data), packed))
    return name


def _blob(connection: sqlite3.Connection, sha256: str) -> bytes:
    row = connection.execute("SELECT data FROM blobs WHERE sha256 = ?", (sha256,)).fetchone()
    if row is None:
        raise LedgerError(f"The review ledger has no data of the hash {sha256}.")
    with contextlib.suppress(zlib.error):
        return zlib.decompress(row[0])
    raise LedgerError(f"The data of the hash {sha256} in the review ledger is damaged.")
