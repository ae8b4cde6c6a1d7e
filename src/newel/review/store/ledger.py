"""The ledger of a project, kept: each file's review, the journal of its changes, checkpoints, and the texts behind them.

    with Ledger.open(home / "review" / project) as ledger:
        review = ledger.change("src/a.py", "accept", lambda now: accept(now, "h_1"), rev=4).review

One SQLite file that several processes may have open: a terminal, a workbench and ``newel undo`` see the same ledger. Every
change is one transaction; what a method returned is on the disk. A review stands there as its fold beside its journal, in
the same transaction, so that to read one costs nothing however long its history is.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import msgspec

from newel.agent.messages import Wire, new_id
from newel.review.model.file_review import FileReview, StaleRevision, identified
from newel.review.model.history import MOVES_BASE, HistoryEntry, Kind, entry, redo, undo
from newel.review.store.schema import (
    FILE,
    LEDGER,
    LedgerError,
    blob,
    hashes_in,
    pack,
    put,
    read_entry,
    unpack,
)
from newel.storage.file_lock import lock
from newel.storage.files import PRIVATE_FILE, make_private
from newel.storage.sqlite import connect, make_file, roll_back

LOCK: Final = "ledger.lock"


class FileVersion(Wire, frozen=True, kw_only=True):
    """A file as a checkpoint has it: the blob of its bytes (empty for no file), and its permission bits."""

    path: str
    blob: str
    mode: int


class Checkpoint(Wire, frozen=True, kw_only=True):
    """How files were before a run of an agent changed them. ``files`` grows as the run touches more, and so do ``folders``,
    those that were not there before it. Of a rollback, ``about`` is the title of the run that it is about in the end,
    ``is_redo`` says that it brings that back, and ``is_partial`` that a file could not be written, which is left to do.
    """

    id: str
    created: str
    run: str
    session: str = ""
    title: str = ""
    files: tuple[FileVersion, ...] = ()
    folders: tuple[str, ...] = ()
    about: str = ""
    is_redo: bool = False
    is_partial: bool = False


class SaveIntent(Wire, frozen=True, kw_only=True):
    """A save that is under way, over one file or several: what a crash in its midst leaves to be finished."""

    id: str
    files: tuple[PlannedWrite, ...]


class PlannedWrite(Wire, frozen=True, kw_only=True):
    """The hunks ``ids`` of revision ``rev`` go into a file, whose bytes then have the hash ``after`` (``text_hash``)."""

    path: str
    rev: int
    ids: tuple[str, ...]
    before: str
    after: str


class ChangeResult(NamedTuple):
    review: FileReview
    entry: HistoryEntry | None
    """None where the change changed nothing."""


class _ReadTransaction(NamedTuple):
    """A review as it was last read or written, which is the one asked for next. ``hash`` is its buffer's, if it is known."""

    review: FileReview
    base: str
    hash: str = ""


_NOTHING: Final = _ReadTransaction(FileReview(path=""), "")


class Ledger:
    """Use ``open``. Methods block for as long as the disk takes; any thread may call them. Raise ``LedgerError``."""

    def __init__(self, connection: sqlite3.Connection, folder: Path | None, user: int | None) -> None:
        self.folder = folder
        self._connection = connection
        self._path = str(folder / FILE) if folder else "in memory"
        self._user = user
        self._lock = threading.RLock()
        self._claims: set[str] | None = None
        self._is_batch = False
        self._last = _NOTHING
        self._sleepers: list[Callable[[], None]] = []

    @classmethod
    def open(cls, folder: Path | None) -> Self:
        """The ledger in a folder, which is made if need be; of memory alone for None."""
        path = folder / FILE if folder else None
        user: int | None = None
        with contextlib.ExitStack() as opened:
            try:
                if folder is not None and path is not None:
                    make_private(folder)
                    make_file(path)
                    user = os.open(
                        folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE
                    )
                    opened.callback(os.close, user)
                    lock(user, shared=True)  # before anything is read: see `is_alone`
                connection = connect(path)
                opened.callback(connection.close)
                connection.execute(
                    "PRAGMA auto_vacuum = INCREMENTAL"
                )  # says nothing of a file that has tables
                LEDGER.migrate(connection, str(path))
            except sqlite3.Error as error:
                raise LEDGER.failure(str(path), error) from error
            except OSError as error:
                raise LedgerError(
                    f"{path} cannot be used: {error.strerror}. Set NEWEL_HOME to another folder."
                ) from error
            opened.pop_all()
        return cls(connection, folder, user)

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            if self._user is not None:
                os.close(self._user)
                self._user = None

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
            return [row[0] for row in connection.execute("SELECT DISTINCT path FROM entries ORDER BY path")]

    def is_known(self, path: str) -> bool:
        """Whether the ledger has heard of a file."""
        with self.reading() as connection:
            return connection.execute("SELECT 1 FROM files WHERE path = ?", (path,)).fetchone() is not None

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
    ) -> ChangeResult:
        """Put what ``make`` makes of a review in its place. ``rev`` is the revision that the caller knows. Raises
        ``StaleRevision``, and what ``make`` raises; then nothing has changed.
        """

        def change(before: FileReview, hash_before: str) -> tuple[FileReview, HistoryEntry | None]:
            after = make(before)
            if after is before:
                return before, None
            after = identified(before, after)
            return after, entry(kind, before, after, hunks=hunks, run=run, hash_before=hash_before)

        return self._change(path, rev, change)

    def undo(self, path: str, *, rev: int | None = None) -> ChangeResult:
        """Take the latest change back. Raises ``NothingToUndo`` and ``StaleRevision``."""
        return self._change(path, rev, lambda now, before: undo(now, self._since_base(path), before))

    def redo(self, path: str, *, rev: int | None = None) -> ChangeResult:
        """Make the change again that was last taken back. Raises as ``undo``."""
        return self._change(path, rev, lambda now, before: redo(now, self._since_base(path), before))

    def entries(self, *, path: str | None = None, run: str | None = None) -> list[HistoryEntry]:
        """The journal, in its order: all of it, a file's, or a run's."""
        wanted = {name: value for name, value in (("path", path), ("run", run)) if value is not None}
        # Written out, for SQLite looks into no index where a condition may be none.
        conditions = "".join(f" AND {name} = :{name}" for name in wanted)
        with self.reading() as connection:
            rows = connection.execute(f"SELECT data FROM entries WHERE TRUE{conditions} ORDER BY n", wanted)  # noqa: S608 — both names are ours
            return [read_entry(row[0]) for row in rows]

    def entries_after(self, path: str, run: str) -> list[HistoryEntry] | None:
        """What the journal of a file says since the last entry of a run; None if it has none of the run."""
        query = "SELECT max(n) FROM entries WHERE path = ? AND run = ?"
        later = "SELECT data FROM entries WHERE path = ? AND n > ? ORDER BY n"
        with self.reading() as connection:
            (last,) = connection.execute(query, (path, run)).fetchone()
            if last is None:
                return None
            return [read_entry(row[0]) for row in connection.execute(later, (path, last))]

    def last_entry(self) -> int:
        """The number of the journal's last entry; 0 of an empty one."""
        with self.reading() as connection:
            (last,) = connection.execute("SELECT coalesce(max(n), 0) FROM entries").fetchone()
            return last

    def entries_between(self, after: int, last: int, kinds: Sequence[Kind]) -> list[HistoryEntry]:
        """What the journal says of some kinds behind the entry ``after``, up to ``last``."""
        query = """
            SELECT data FROM entries
            WHERE n > ? AND n <= ? AND kind IN (SELECT value FROM json_each(?)) ORDER BY n
            """
        with self.reading() as connection:
            rows = connection.execute(query, (after, last, msgspec.json.encode(kinds).decode()))
            return [read_entry(row[0]) for row in rows]

    def _since_base(self, path: str) -> list[HistoryEntry]:
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
        change: Callable[[FileReview, str], tuple[FileReview, HistoryEntry | None]],
    ) -> ChangeResult:
        with self.writing() as connection:
            before, base, hash_before = self._get(connection, path)
            if rev is not None and rev != before.rev:
                raise StaleRevision(
                    f"{path} is at revision {before.rev}, and this change was made for {rev}. Read it anew and try again."
                )
            after, made = change(before, hash_before)
            if made is None:
                return ChangeResult(before, None)
            if after.base is not before.base or not base:
                base = new_id()
                lines = self._packed(after.base)
                connection.execute("INSERT OR REPLACE INTO bases VALUES (?, ?, ?)", (path, base, lines))
            small = self._packed(msgspec.structs.replace(after, base=()))
            connection.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", (path, after.rev, base, small)
            )
            connection.execute(
                "INSERT INTO entries (path, run, kind, data) VALUES (?, ?, ?, ?)",
                (path, made.run, made.kind, self._packed(made)),
            )
            self._last = _ReadTransaction(after, base, made.hash_after)
            for wake in tuple(self._sleepers):
                wake()  # who looks is let in when this is committed
        return ChangeResult(after, made)

    def wake_on_change(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call ``wake`` with each change, in the thread that makes it; the returned function ends that."""
        self._sleepers.append(wake)
        return lambda: self._sleepers.remove(wake)

    def _packed(self, value: object) -> bytes:
        data = msgspec.json.encode(value)
        if self._claims is not None:
            self._claims |= hashes_in(data)
        return pack(data)

    def _get(self, connection: sqlite3.Connection, path: str) -> _ReadTransaction:
        last = self._last
        row = connection.execute("SELECT rev, base FROM files WHERE path = ?", (path,)).fetchone()
        if row is None:
            return _ReadTransaction(FileReview(path=path), "")
        if last.review.path != path or row != (last.review.rev, last.base):
            # One statement, so that what another process does in between is in all of it or in nothing.
            base, small, lines = connection.execute(
                "SELECT base, review, data FROM files JOIN bases USING (path) WHERE path = ?", (path,)
            ).fetchone()
            review = msgspec.json.decode(unpack(small), type=FileReview)
            is_known = base == last.base
            known = last.review.base if is_known else msgspec.json.decode(unpack(lines), type=tuple[str, ...])
            last = self._last = _ReadTransaction(msgspec.structs.replace(review, base=known), base)
        return last

    # -- checkpoints and intents ------------------------------------------------------------------

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint, or what has become of one of the same id."""
        with self.writing() as connection:
            connection.execute(
                "INSERT INTO checkpoints (id, data) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET data = excluded.data",
                (checkpoint.id, self._packed(checkpoint)),
            )

    def checkpoints(self) -> list[Checkpoint]:
        """All of them, the latest first."""
        with self.reading() as connection:
            rows = connection.execute("SELECT data FROM checkpoints ORDER BY n DESC")
            return [msgspec.json.decode(unpack(row[0]), type=Checkpoint) for row in rows]

    def begin_saving(self, intent: SaveIntent) -> None:
        """Say what is about to be written, before it is."""
        with self.writing() as connection:
            connection.execute("INSERT INTO intents VALUES (?, ?)", (intent.id, self._packed(intent)))

    def end_saving(self, intent_id: str) -> None:
        with self.writing() as connection:
            connection.execute("DELETE FROM intents WHERE id = ?", (intent_id,))

    def intents(self) -> list[SaveIntent]:
        """Saves that were begun and not ended."""
        with self.reading() as connection:
            rows = connection.execute("SELECT data FROM intents ORDER BY id")
            return [msgspec.json.decode(unpack(row[0]), type=SaveIntent) for row in rows]

    # -- blobs ------------------------------------------------------------------------------------

    def put_blobs(self, blobs: Sequence[bytes]) -> list[str]:
        """Keep pieces of data, in one transaction; returns their SHA-256 in hexadecimal."""
        with self.writing() as connection:
            names = put(connection, blobs)
            if self._claims is not None:
                self._claims.update(names)
            return names

    def blob(self, sha256: str) -> bytes:
        """Raises ``LedgerError`` if there is none of that hash."""
        with self.reading() as connection:
            return blob(connection, sha256)

    # -- for those who clear away what nothing refers to --------------------------------------------

    @contextmanager
    def claims(self) -> Generator[set[str]]:
        """The hashes that this process puts into the ledger, or names in it, while the body runs."""
        with self._lock:
            self._claims = set()
        try:
            yield self._claims
        finally:
            self._claims = None

    def is_alone(self) -> bool:
        """Whether no other process has the ledger open. To be asked within ``writing``: then whoever opens it meanwhile
        sees what is done there before they can rely on anything.
        """
        if self._user is None:
            return True
        try:
            # For a moment the lock is nobody's; but only those ask who write, which is one at a time.
            lock(self._user, wait=False)
        except BlockingIOError:
            return False
        finally:
            lock(self._user, shared=True)
        return True

    # -- transactions -----------------------------------------------------------------------------

    @contextmanager
    def batch(self) -> Generator[None]:
        """Several changes at once: all are on the disk with the end of the body, or none if it raises. A batch within
        another one is part of it.
        """
        with self.writing():
            outer, self._is_batch = self._is_batch, True
            try:
                yield
            finally:
                self._is_batch = outer

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
                self._last = _NOTHING
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
