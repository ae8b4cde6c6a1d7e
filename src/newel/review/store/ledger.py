"""The ledger of a project: the review and the history of each file, checkpoints, pending saves and effects, and blobs.

    with Ledger.open(home / "review" / project) as ledger:
        review = ledger.change("src/a.py", "accept", lambda now: accept(now, "h_1"), rev=4).review

One SQLite file that several processes may have open: a terminal, a workbench and ``newel undo`` see the same ledger. Each
change is one transaction, on disk when the method returns. It stores a file's current review beside its history, so
reading a review takes the same time however long its history is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import msgspec

from newel.agent.messages import Wire, new_id
from newel.review.model.file_review import FileReview, HunkState, StaleRevision, identified
from newel.review.model.history import MOVES_BASE, BufferEntry, HistoryEntry, Kind, entry, redo, undo
from newel.review.store.database import LedgerDatabase
from newel.review.store.pending_saves import PendingSaves, PlannedWrite, SaveIntent
from newel.review.store.schema import blob, hashes_in, pack, put, read_entry, unpack
from newel.workspace.snapshots.tree import FileSnapshot


class FileVersion(Wire, frozen=True, kw_only=True):
    """A file in a checkpoint: the blob of its content (empty if there was no file) and its mode."""

    path: str
    blob: str
    mode: int


class Extent(NamedTuple):
    """What was recorded at a moment: the latest checkpoints, the number of the last entry, and how many files were known.
    ``purges`` is how often this process had deleted old records.
    """

    purges: int
    checkpoints: list[str]
    last_entry: int
    files: int


class Checkpoint(Wire, frozen=True, kw_only=True):
    """The files before a run of an agent changed them. While the run goes on, ``files`` grows, and so does ``folders``, the
    folders that did not exist before it. In the checkpoint of a rollback, ``of`` is the checkpoint that it rolls back, ``about`` the
    title of the original run, ``is_redo`` says that the rollback restores that run, and ``is_partial`` that it left a part: a file
    could not be written yet, or only some hunks were named; ``is_stopped``: the user stopped it; ``has_skipped``: it left hunks with
    later changes on them.
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
    is_stopped: bool = False
    has_skipped: bool = False
    of: str = ""


class EffectRecord(Wire, frozen=True, kw_only=True):
    """A pending effect: on the file ``path``, which was ``before``, or on any file for None. ``began_ns`` is on the clock of
    the file system, as is ``run_began_ns``, when the run's first command began (0: this is the first). ``folders`` did not exist above
    the file. With ``is_run`` it is a run from its first command to its end, with all that it has started.
    """

    run: str
    session: str
    title: str
    began: str
    began_ns: int
    run_began_ns: int = 0
    path: str | None = None
    before: FileSnapshot | None = None
    folders: tuple[str, ...] = ()
    is_run: bool = False


class ChangeResult(NamedTuple):
    review: FileReview
    entry: HistoryEntry | None
    """None if the change changed nothing."""


Revision = tuple[int, str]
"""The number of a file's review, and the name of its base. As long as both are the same, so is the review."""


class _CachedReview(NamedTuple):
    """The review that was read or written last, which is usually the next one requested. ``hash`` is that of its buffer, if
    known. Valid while ``rollbacks`` is that of the database.
    """

    review: FileReview
    base: str
    hash: str = ""
    rollbacks: int = 0


_LATEST: Final = 50
"""Checkpoints that ``Extent`` names."""

_COUNTS: Final = "SELECT coalesce(max(n), 0), (SELECT count(*) FROM files) FROM entries"

_NOTHING: Final = _CachedReview(FileReview(path=""), "")


class _HunkState(msgspec.Struct):
    state: HunkState = "pending"


class _HunkStates(msgspec.Struct):
    """The states of a review's hunks, decoded without its text."""

    hunks: tuple[_HunkState, ...] = ()


class Ledger:
    """Use ``open``. Methods block for as long as the disk takes; any thread may call them. Raise ``LedgerError``."""

    def __init__(self, database: LedgerDatabase) -> None:
        self.database = database
        """For the modules of this package, which write the SQL."""
        self.folder = database.folder
        self._claims: set[str] | None = None
        self.purges = 0
        """How often this process has deleted old records."""
        self._last = _NOTHING
        self._saves = PendingSaves(database)
        self._listeners: list[Callable[[], None]] = []

    @classmethod
    def open(cls, folder: Path | None) -> Self:
        """The ledger in a folder, which is created if missing; in memory for None."""
        return cls(LedgerDatabase.open(folder))

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def batch(self, *, flush: bool = True, wait: bool = True) -> AbstractContextManager[None]:
        """Make several changes one transaction: all of them are stored when the body ends, or none if it raises. A batch within
        a batch is part of it. Without ``flush`` they survive the process, but not a power cut. Without ``wait`` it raises
        ``LedgerBusy`` while another thread or process uses the ledger.
        """
        return self.database.batch(flush=flush, wait=wait)

    # -- reviews ----------------------------------------------------------------------------------

    def paths(self) -> list[str]:
        """The files with a history, sorted."""
        with self.database.reading() as connection:
            return [row[0] for row in connection.execute("SELECT DISTINCT path FROM entries ORDER BY path")]

    def is_known(self, path: str) -> bool:
        """Whether the ledger has a review of a file."""
        with self.database.reading() as connection:
            return connection.execute("SELECT 1 FROM files WHERE path = ?", (path,)).fetchone() is not None

    def get(self, path: str) -> FileReview:
        """A file's review; that of an unknown file has no base and revision 0."""
        with self.database.reading() as connection:
            return self._get(connection, path).review

    def revisions(self) -> dict[str, Revision]:
        """The revisions of all files, sorted by their names."""
        with self.database.reading() as connection:
            rows = connection.execute("SELECT path, rev, base FROM files ORDER BY path")
            return {path: (rev, base) for path, rev, base in rows}

    def hunk_states(self, path: str) -> list[HunkState]:
        """The states of a file's hunks. Does not decode the text of the review."""
        with self.database.reading() as connection:
            row = connection.execute("SELECT review FROM files WHERE path = ?", (path,)).fetchone()
        hunks = msgspec.json.decode(unpack(row[0]), type=_HunkStates).hunks if row else ()
        return [hunk.state for hunk in hunks]

    def has_shown_hunks(self, path: str) -> bool:
        """Whether a file has hunks that are not rejected."""
        return any(state != "rejected" for state in self.hunk_states(path))

    def change(
        self,
        path: str,
        kind: Kind,
        make: Callable[[FileReview], FileReview],
        *,
        rev: int | None = None,
        hunks: tuple[str, ...] = (),
        run: str = "",
        reason: str = "",
    ) -> ChangeResult:
        """Replace a review by what ``make`` returns for it. ``rev`` is the revision that the caller knows. Raises
        ``StaleRevision`` and whatever ``make`` raises; then nothing has changed.
        """

        def change(before: FileReview, hash_before: str) -> tuple[FileReview, HistoryEntry | None]:
            after = make(before)
            if after is before:
                return before, None
            after = identified(before, after)
            made = entry(kind, before, after, hunks=hunks, run=run, reason=reason, hash_before=hash_before)
            return after, made

        return self._change(path, rev, change)

    def undo(self, path: str, *, rev: int | None = None) -> ChangeResult:
        """Undo the latest change. Raises ``NothingToUndo`` and ``StaleRevision``."""
        return self._change(path, rev, lambda now, before: undo(now, self._since_base(path), before))

    def redo(self, path: str, *, rev: int | None = None) -> ChangeResult:
        """Redo the change that was undone last. Raises as ``undo``."""
        return self._change(path, rev, lambda now, before: redo(now, self._since_base(path), before))

    def entries(
        self, *, path: str | None = None, run: str | None = None, kind: Kind | None = None
    ) -> list[HistoryEntry]:
        """The history in its order: all of it, or that of a file, of a run, of a kind. Without ``path`` and ``run`` it reads everything."""
        wanted = (("path", path), ("run", run), ("kind", kind))
        filters = {name: value for name, value in wanted if value is not None}
        # Only the conditions that apply: SQLite uses no index for `:path IS NULL OR path = :path`. The plus keeps it from the index of
        # runs if a file is given: a file has few entries, a run may have those of thousands of files.
        plus = "+" if path is not None else ""
        conditions = "".join(f" AND {plus * (name == 'run')}{name} = :{name}" for name in filters)
        with self.database.reading() as connection:
            rows = connection.execute(f"SELECT data FROM entries WHERE TRUE{conditions} ORDER BY n", filters)  # noqa: S608 — the names are ours
            return [read_entry(row[0]) for row in rows]

    def entries_since(self, path: str, time: str) -> list[HistoryEntry]:
        """The end of a file's history, from a time on, in ISO 8601."""
        query = "SELECT data FROM entries WHERE path = ? ORDER BY n DESC"
        with self.database.reading() as connection:
            latest = (read_entry(row[0]) for row in connection.execute(query, (path,)))
            return [*takewhile(lambda entry: entry.ts >= time, latest)][::-1]

    def entries_after(self, path: str, run: str) -> list[BufferEntry] | None:
        """A file's history after the last entry of a run, as far as it is about the buffer; None if it has none of the run."""
        query = "SELECT max(n) FROM entries WHERE path = ? AND +run = ?"  # as in `entries`
        later = "SELECT data FROM entries WHERE path = ? AND n > ? ORDER BY n"
        with self.database.reading() as connection:
            (last,) = connection.execute(query, (path, run)).fetchone()
            if last is None:
                return None
            rows = connection.execute(later, (path, last))
            return [msgspec.json.decode(unpack(row[0]), type=BufferEntry) for row in rows]

    def extent(self) -> Extent:
        with self.database.reading() as connection:
            latest = connection.execute(
                "SELECT id FROM checkpoints ORDER BY n DESC LIMIT ?", (_LATEST,)
            ).fetchall()
            return Extent(self.purges, [row[0] for row in latest], *connection.execute(_COUNTS).fetchone())

    def has_lost(self, earlier: Extent) -> bool:
        """Whether something of an earlier extent is gone that Newel would not have deleted: a purge deletes old records only."""
        with self.database.reading() as connection:
            names = (msgspec.json.encode(earlier.checkpoints).decode(),)
            query = "SELECT count(*) FROM checkpoints WHERE id IN (SELECT value FROM json_each(?))"
            checkpoints = connection.execute(query, names).fetchone()[0]
            last_entry, files = connection.execute(_COUNTS).fetchone()
        is_reduced = (
            checkpoints < len(earlier.checkpoints) or last_entry < earlier.last_entry or files < earlier.files
        )
        return is_reduced and self.purges == earlier.purges

    def last_entry(self) -> int:
        """The number of the last entry of all histories; 0 if there is none."""
        with self.database.reading() as connection:
            (last,) = connection.execute("SELECT coalesce(max(n), 0) FROM entries").fetchone()
            return last

    def entries_between(self, after: int, last: int, kinds: Sequence[Kind]) -> list[HistoryEntry]:
        """The entries of some kinds from behind number ``after`` up to ``last``."""
        query = """
            SELECT data FROM entries
            WHERE n > ? AND n <= ? AND kind IN (SELECT value FROM json_each(?)) ORDER BY n
            """
        with self.database.reading() as connection:
            rows = connection.execute(query, (after, last, msgspec.json.encode(kinds).decode()))
            return [read_entry(row[0]) for row in rows]

    def _since_base(self, path: str) -> list[HistoryEntry]:
        """A file's history since its base moved last."""
        with self.database.reading() as connection:
            rows = connection.execute(
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
        with self.database.writing() as connection:
            before, base, hash_before, _ = self._get(connection, path)
            if rev is not None and rev != before.rev:
                raise StaleRevision(
                    f"{path} is at revision {before.rev}, and this change was made for {rev}. Read the file again and retry."
                )
            after, entry = change(before, hash_before)
            if entry is None:
                return ChangeResult(before, None)
            if after.base is not before.base or not base:
                base = new_id()
                lines = self._pack(after.base)
                connection.execute("INSERT OR REPLACE INTO bases VALUES (?, ?, ?)", (path, base, lines))
            small = self._pack(msgspec.structs.replace(after, base=()))
            connection.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", (path, after.rev, base, small)
            )
            connection.execute(
                "INSERT INTO entries (path, run, kind, data) VALUES (?, ?, ?, ?)",
                (path, entry.run, entry.kind, self._pack(entry)),
            )
            self._last = _CachedReview(after, base, entry.hash_after, self.database.rollbacks)
            for notify in tuple(self._listeners):
                notify()  # a reader that wakes now waits for the lock until this is committed
        return ChangeResult(after, entry)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` with each change, in the thread that makes it; the returned function unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _pack(self, value: object) -> bytes:
        data = msgspec.json.encode(value)
        if self._claims is not None:
            self._claims |= hashes_in(data)
        return pack(data)

    def _get(self, connection: sqlite3.Connection, path: str) -> _CachedReview:
        last, rollbacks = self._last, self.database.rollbacks
        row = connection.execute("SELECT rev, base FROM files WHERE path = ?", (path,)).fetchone()
        if row is None:
            return _CachedReview(FileReview(path=path), "")
        if (path, row, rollbacks) != (last.review.path, (last.review.rev, last.base), last.rollbacks):
            # One statement, so that it sees all or nothing of a concurrent change of another process.
            base, small, lines = connection.execute(
                "SELECT base, review, data FROM files JOIN bases USING (path) WHERE path = ?", (path,)
            ).fetchone()
            review = msgspec.json.decode(unpack(small), type=FileReview)
            is_cached = base == last.base and rollbacks == last.rollbacks
            cached = (
                last.review.base if is_cached else msgspec.json.decode(unpack(lines), type=tuple[str, ...])
            )
            review = msgspec.structs.replace(review, base=cached)
            last = self._last = _CachedReview(review, base, rollbacks=rollbacks)
        return last

    # -- checkpoints, pending saves and effects -----------------------------------------------------

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Add a checkpoint, or replace the one with the same id."""
        query = """
            INSERT INTO checkpoints (id, run, data) VALUES (?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET run = excluded.run, data = excluded.data
            """
        with self.database.writing() as connection:
            connection.execute(query, (checkpoint.id, checkpoint.run, self._pack(checkpoint)))

    def checkpoints(self, *, prefix: str = "", limit: int = -1) -> list[Checkpoint]:
        """The checkpoints whose ids begin with ``prefix``, the latest first; at most ``limit`` of them if it is not negative."""
        return self._checkpoints("substr(id, 1, length(:value)) = :value", prefix, limit)

    def checkpoint(self, checkpoint_id: str) -> Checkpoint | None:
        return next(iter(self._checkpoints("id = :value", checkpoint_id, 1)), None)

    def checkpoint_of_run(self, run: str) -> Checkpoint | None:
        """The checkpoint of a run; of several the latest."""
        # An older version that still runs leaves the column empty.
        checkpoints = self._checkpoints("run IN (:value, '')", run, -1)
        return next((checkpoint for checkpoint in checkpoints if checkpoint.run == run), None)

    def checkpoints_of_runs(self, runs: Iterable[str]) -> dict[str, Checkpoint]:
        """The checkpoints of those runs that have one, by the run."""
        checkpoints = ((run, self.checkpoint_of_run(run)) for run in runs)
        return {run: checkpoint for run, checkpoint in checkpoints if checkpoint is not None}

    def _checkpoints(self, condition: str, value: str, limit: int) -> list[Checkpoint]:
        with self.database.reading() as connection:
            query = f"SELECT data FROM checkpoints WHERE {condition} ORDER BY n DESC LIMIT :most"  # noqa: S608 — conditions of ours
            rows = connection.execute(query, {"value": value, "most": limit})
            return [msgspec.json.decode(unpack(row[0]), type=Checkpoint) for row in rows]

    def begin_saving(self, intent: SaveIntent) -> None:
        """Record what is about to be written, before it is."""
        with self.database.writing() as connection:
            connection.execute("INSERT INTO intents VALUES (?, ?)", (intent.id, self._pack(intent)))

    def end_saving(self, intent_id: str) -> None:
        with self.database.writing() as connection:
            connection.execute("DELETE FROM intents WHERE id = ?", (intent_id,))

    def intents(self) -> list[SaveIntent]:
        """The saves that have begun and not ended."""
        return self._saves.intents()

    def planned_writes(self, path: str) -> list[PlannedWrite]:
        """What these saves write to a file."""
        return self._saves.writes(path)

    def begin_effect(self, owner: str, effect: EffectRecord) -> str:
        """Record an effect of the process ``owner`` before it happens; returns its id. It is not flushed to the disk: it is for a
        process that is killed, and an effect must not wait for the disk twice.
        """
        effect_id = new_id()
        with self.database.writing(flush=False) as connection:
            row = (effect_id, owner, self._pack(effect))
            connection.execute("INSERT INTO effects (id, owner, data) VALUES (?, ?, ?)", row)
        return effect_id

    def end_effect(self, effect_id: str) -> None:
        """The effect is recorded: within a ``batch``, together with what came of it."""
        with self.database.writing(flush=False) as connection:
            connection.execute("DELETE FROM effects WHERE id = ?", (effect_id,))

    def effect_owners(self) -> list[str]:
        """The processes with pending effects."""
        with self.database.reading() as connection:
            return [row[0] for row in connection.execute("SELECT DISTINCT owner FROM effects ORDER BY owner")]

    def effects(self, owner: str) -> dict[str, EffectRecord]:
        """The pending effects of a process by their ids, in their order."""
        with self.database.reading() as connection:
            rows = connection.execute("SELECT id, data FROM effects WHERE owner = ? ORDER BY n", (owner,))
            return {name: msgspec.json.decode(unpack(data), type=EffectRecord) for name, data in rows}

    # -- blobs ------------------------------------------------------------------------------------

    def put_blobs(
        self, blobs: Sequence[bytes], *, names: Sequence[str] | None = None, flush: bool = True
    ) -> Sequence[str]:
        """Store pieces of data in one transaction; returns ``names``, their SHA-256 in hexadecimal. See ``LedgerDatabase.writing``."""
        with self.database.writing(flush=flush) as connection:
            names = put(connection, blobs, names)
            if self._claims is not None:
                self._claims.update(names)
            return names

    def blob(self, sha256: str) -> bytes:
        """Raises ``LedgerError`` if there is no blob with that hash."""
        with self.database.reading() as connection:
            return blob(connection, sha256)

    def find_blob(self, sha256: str) -> bytes | None:
        """None if there is no blob with that hash."""
        return self.blob(sha256) if self.has_blob(sha256) else None

    def has_blob(self, sha256: str) -> bool:
        with self.database.reading() as connection:
            query = "SELECT 1 FROM blobs WHERE sha256 = ?"
            return connection.execute(query, (sha256,)).fetchone() is not None

    def blob_size(self, sha256: str) -> int:
        """The size of a blob in bytes; 0 if there is none with that hash."""
        with self.database.reading() as connection:
            row = connection.execute("SELECT size FROM blobs WHERE sha256 = ?", (sha256,)).fetchone()
        return row[0] if row else 0

    @contextmanager
    def claims(self) -> Generator[set[str]]:
        """The hashes that this process stores or names while the body runs. Garbage collection spares them."""
        self._claims = set()
        try:
            yield self._claims
        finally:
            self._claims = None
