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
from typing import Any, Final, NamedTuple, Self

import msgspec

from newel.agent.messages import Wire, new_id
from newel.review.history import MOVES_BASE, Entry, Kind, entry, redo, undo
from newel.review.ledger import FileReview, ReviewError, StaleRevision
from newel.session.database import Format, connect, make_file, roll_back
from newel.session.locate import make_private

FILE = "ledger.db"

MIGRATIONS: tuple[Sequence[str], ...] = (
    (
        # A review's base stands apart, as lines: it changes seldom, and may be long. `base` is its name, which no other has.
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
        # Of a base that was saved over nothing is needed: the journal knows what it was.
        "CREATE TABLE bases (path TEXT PRIMARY KEY, name TEXT NOT NULL, data BLOB NOT NULL)",
        "INSERT INTO bases SELECT path, base, data FROM files JOIN blobs ON sha256 = base",
        "ALTER TABLE entries ADD COLUMN kind TEXT NOT NULL DEFAULT ''",
        "UPDATE entries SET kind = json_extract(CAST(data AS TEXT), '$.kind')",
    ),
)

PACKED: Final = 4096
"""Bytes from which on a piece of JSON is compressed."""


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


class _Read(NamedTuple):
    """A review as it was last read or written, which is the one asked for next. ``hash`` is its buffer's, if it is known."""

    review: FileReview
    base: str
    hash: str = ""


class Ledger:
    """Use ``open``. Methods block for as long as the disk takes; any thread may call them. Raise ``LedgerError``."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._lock = threading.RLock()
        self._is_batch = False
        self._last = _Read(FileReview(path=""), "")

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
        with self.reading() as connection:
            return [row[0] for row in connection.execute("SELECT path FROM files ORDER BY path")]

    def get(self, path: str) -> FileReview:
        """A file's review; one that was never heard of has no base yet, and revision 0."""
        with self.reading() as connection:
            return self._get(connection, path).review

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

        def change(before: FileReview, hash_before: str) -> tuple[FileReview, Entry | None]:
            after = make(before)
            if after is before:
                return before, None
            return after, entry(kind, before, after, hunks=hunks, run=run, hash_before=hash_before)

        return self._change(path, rev, change)

    def undo(self, path: str, *, rev: int | None = None) -> Changed:
        """Take the latest change back. Raises ``NothingToUndo`` and ``StaleRevision``."""
        return self._change(path, rev, lambda now, before: undo(now, self._since_base(path), before))

    def redo(self, path: str, *, rev: int | None = None) -> Changed:
        """Make the change again that was last taken back. Raises as ``undo``."""
        return self._change(path, rev, lambda now, before: redo(now, self._since_base(path), before))

    def entries(self, *, path: str | None = None, run: str | None = None) -> list[Entry]:
        """The journal, in its order: all of it, a file's, or a run's."""
        wanted: dict[str, Any] = {"path": path, "run": run}
        with self.reading() as connection:
            rows = connection.execute(
                "SELECT data FROM entries WHERE (:path IS NULL OR path = :path) AND (:run IS NULL OR run = :run)"
                " ORDER BY n",
                wanted,
            )
            return [read_entry(row[0]) for row in rows]

    def _since_base(self, path: str) -> list[Entry]:
        """What the journal of a file says since its base is what it is."""
        rows = self._connection.execute(
            """
            SELECT data FROM entries WHERE path = :path AND n > (
                SELECT coalesce(max(n), 0) FROM entries
                WHERE path = :path AND kind IN (SELECT value FROM json_each(:moving))
            ) ORDER BY n
            """,
            {"path": path, "moving": msgspec.json.encode(sorted(MOVES_BASE)).decode()},
        )
        return [read_entry(row[0]) for row in rows]

    def _change(
        self,
        path: str,
        rev: int | None,
        change: Callable[[FileReview, str], tuple[FileReview, Entry | None]],
    ) -> Changed:
        with self.writing() as connection:
            before, base, hash_before = self._get(connection, path)
            if rev is not None and rev != before.rev:
                raise StaleRevision(
                    f"{path} is at revision {before.rev}, and this change was made for {rev}. Read it anew and try again."
                )
            after, made = change(before, hash_before)
            if made is None:
                return Changed(before, None)
            if after.base is not before.base or not base:
                base = new_id()
                lines = pack(msgspec.json.encode(after.base))
                connection.execute("INSERT OR REPLACE INTO bases VALUES (?, ?, ?)", (path, base, lines))
            small = pack(msgspec.json.encode(msgspec.structs.replace(after, base=())))
            connection.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", (path, after.rev, base, small)
            )
            connection.execute(
                "INSERT INTO entries (path, run, kind, data) VALUES (?, ?, ?, ?)",
                (path, made.run, made.kind, pack(msgspec.json.encode(made))),
            )
            self._last = _Read(after, base, made.hash_after)
        return Changed(after, made)

    def _get(self, connection: sqlite3.Connection, path: str) -> _Read:
        last = self._last
        row = connection.execute("SELECT rev, base FROM files WHERE path = ?", (path,)).fetchone()
        if row is None:
            return _Read(FileReview(path=path), "")
        if last.review.path != path or row != (last.review.rev, last.base):
            # One statement, so that what another process does in between is in all of it or in nothing.
            base, small, lines = connection.execute(
                "SELECT base, review, data FROM files JOIN bases USING (path) WHERE path = ?", (path,)
            ).fetchone()
            review = msgspec.json.decode(unpack(small), type=FileReview)
            is_known = base == last.base
            known = last.review.base if is_known else msgspec.json.decode(unpack(lines), type=tuple[str, ...])
            last = self._last = _Read(msgspec.structs.replace(review, base=known), base)
        return last

    # -- checkpoints and intents ------------------------------------------------------------------

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint, or what has become of one of the same id."""
        with self.writing() as connection:
            connection.execute(
                "INSERT INTO checkpoints (id, data) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET data = excluded.data",
                (checkpoint.id, msgspec.json.encode(checkpoint)),
            )

    def checkpoints(self) -> list[Checkpoint]:
        """All of them, the latest first."""
        with self.reading() as connection:
            rows = connection.execute("SELECT data FROM checkpoints ORDER BY n DESC")
            return [msgspec.json.decode(row[0], type=Checkpoint) for row in rows]

    def begin_saving(self, intent: Intent) -> None:
        """Say what is about to be written, before it is."""
        with self.writing() as connection:
            connection.execute("INSERT INTO intents VALUES (?, ?)", (intent.id, msgspec.json.encode(intent)))

    def end_saving(self, intent_id: str) -> None:
        with self.writing() as connection:
            connection.execute("DELETE FROM intents WHERE id = ?", (intent_id,))

    def intents(self) -> list[Intent]:
        """Saves that were begun and not ended."""
        with self.reading() as connection:
            rows = connection.execute("SELECT data FROM intents ORDER BY id")
            return [msgspec.json.decode(row[0], type=Intent) for row in rows]

    # -- blobs ------------------------------------------------------------------------------------

    def put_blobs(self, blobs: Sequence[bytes]) -> list[str]:
        """Keep pieces of data, in one transaction; returns their SHA-256 in hexadecimal."""
        with self.writing() as connection:
            return [_put(connection, data) for data in blobs]

    def blob(self, sha256: str) -> bytes:
        """Raises ``LedgerError`` if there is none of that hash."""
        with self.reading() as connection:
            return _blob(connection, sha256)

    # -- transactions -----------------------------------------------------------------------------

    @contextmanager
    def batch(self) -> Generator[None]:
        """Several changes at once: all are on the disk with the end of the body, or none if it raises."""
        with self.writing():
            self._is_batch = True
            try:
                yield
            finally:
                self._is_batch = False

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """For the modules that keep house in the ledger."""
        with self._lock, self._in_words():
            yield self._connection

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """A transaction, for the same."""
        with self._lock, self._in_words():
            if self._is_batch:
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._last = _Read(FileReview(path=""), "")
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


def pack(data: bytes) -> bytes:
    """JSON as it is kept: what is long is compressed."""
    return data if len(data) < PACKED else zlib.compress(data, 1)


def unpack(data: bytes) -> bytes:
    return data if data[:1] in {b"{", b"["} else zlib.decompress(data)


def read_entry(data: bytes) -> Entry:
    return msgspec.json.decode(unpack(data), type=Entry)


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
