"""The ledger stays small: what is too old to be taken back is forgotten, and what nothing refers to any more is removed.

First the oldest checkpoints go, then the early part of each file's journal, then the blobs that no checkpoint, review,
journal or index names. Files whose journal is of no use any more are as if they had never been heard of.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import Wire, new_id
from newel.review.model.file_review import AppliedHunk, FileReview, StaleRevision
from newel.review.model.history import HistoryEntry, made_by
from newel.review.store.history_truncation import TruncatedHistory, needed_from, shortened
from newel.review.store.ledger import LOCK, Checkpoint, Ledger
from newel.review.store.schema import FILE, HASH, LEDGER, hashes_in, pack, read_entry, unpack
from newel.storage.files import read_regular
from newel.storage.sqlite import connect
from newel.workspace.snapshots.index import promised

EVERY: Final = 24 * 3600.0
"""Seconds from one purge to the next."""

_STEP: Final = 500
"""Blobs, or pages of the file, that are removed at a time; others may write in between."""

_BLOB_LINE: Final = re.compile(rb"\\u0000sha256:([0-9a-f]{64})")

_NAMING: Final = (
    ("checkpoints", "data", HASH),
    ("intents", "data", HASH),
    ("files", "review", _BLOB_LINE),
    ("bases", "data", _BLOB_LINE),
    ("entries", "data", _BLOB_LINE),
)
"""Where blobs are named, and how; hashes of texts stand there as well."""


class Keep(Wire, frozen=True, kw_only=True):
    """What is kept: the latest ``runs``, and all of the last ``days``. Only if the ledger takes more than ``size`` bytes,
    less, but always all of the last day.
    """

    runs: int = 200
    days: int = 30
    size: int = 2 << 30


class Purged(Wire, frozen=True, kw_only=True):
    """What went; ``size`` are the bytes that are in use. ``is_alone`` is False where blobs stayed because of others who
    have the ledger open.
    """

    checkpoints: int = 0
    entries: int = 0
    blobs: int = 0
    size: int = 0
    is_alone: bool = True


def in_background(ledger: Ledger, tell: Callable[[str], None], keep: Keep | None = None) -> None:
    """Purge a ledger that was just opened, unless that was done within the last day. Nobody waits for it; it ends with the
    ledger. ``tell`` is told what a person should know.
    """
    folder = ledger.folder
    if folder is None:
        return
    lock, wanted = folder / LOCK, keep or Keep()
    with contextlib.suppress(OSError):  # somebody removed it
        if time.time() - lock.stat().st_mtime < EVERY:
            return
    claims = contextlib.ExitStack()
    claimed = claims.enter_context(ledger.claims())  # from now on, and not from when the thread gets to run

    def work() -> None:
        with claims, contextlib.suppress(NewelError, OSError):  # what was not done is done the next time
            done = _purged(_Purge(ledger, folder, claimed), wanted, datetime.now(UTC))
            os.utime(lock)
            if done.size > wanted.size:
                tell(
                    f"The review ledger {folder} takes {done.size / 2**30:.1f} GiB, more than "
                    f"{wanted.size / 2**30:.1f} GiB, though what is older than a day was forgotten. Nothing is lost; to make "
                    "room, move the folder away, and what was recorded until now cannot be undone any more."
                )

    threading.Thread(target=work, name="newel-purge", daemon=True).start()


def purge(ledger: Ledger, keep: Keep, *, now: datetime | None = None) -> Purged:
    """Forget what is old; returns what went. A ledger in memory is left alone. What this process has put into the ledger
    before must be named by something, or it may go. Raises ``LedgerError``.
    """
    if ledger.folder is None:
        return Purged()
    with ledger.claims() as claimed:
        return _purged(_Purge(ledger, ledger.folder, claimed), keep, now or datetime.now(UTC))


def _purged(steps: _Purge, keep: Keep, now: datetime) -> Purged:
    old = _moment(now - timedelta(days=keep.days))
    recent = _moment(now - timedelta(days=1))
    checkpoints = steps.ledger.checkpoints()
    pinned = _pinned(steps.ledger, checkpoints)
    kept = [
        each
        for n, each in enumerate(checkpoints)
        if n < keep.runs or each.created >= old or each.id in pinned
    ]
    done = steps.all_but(kept, since=old)
    while done.size > keep.size and done.is_alone:  # else nothing is gained by forgetting
        spare = [each for each in kept if each.created < recent and each.id not in pinned]
        if not spare:
            break
        gone = {each.id for each in spare[len(spare) // 2 :]}
        kept = [each for each in kept if each.id not in gone]
        done = steps.all_but(kept, since=recent)
    return done


def _moment(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _pinned(ledger: Ledger, checkpoints: Sequence[Checkpoint]) -> set[str]:
    """The checkpoints of runs that have hunks which are not saved."""
    runs: set[str] = set()
    hunks: set[str] = set()
    for path in ledger.paths():
        for hunk in ledger.get(path).hunks:
            runs |= {layer.run for layer in hunk.layers}
            hunks.add(hunk.id)
    return {
        each.id
        for each in checkpoints
        if each.run in runs or (hunks and not hunks.isdisjoint(made_by(ledger.entries(run=each.run))))
    }


class _Purge:
    """The steps, and what came of them so far."""

    def __init__(self, ledger: Ledger, folder: Path, claimed: Collection[str]) -> None:
        self.ledger = ledger
        self._folder = folder
        self._claimed = claimed
        self._checkpoints = 0
        self._entries = 0
        self._blobs = 0

    def all_but(self, kept: Sequence[Checkpoint], *, since: str) -> Purged:
        """Forget the other checkpoints, what only they need and was made before ``since``, and what nothing names."""
        self._forget_checkpoints({each.id for each in kept})
        self._forget_history(kept, since)
        is_alone = self._sweep()
        return Purged(
            checkpoints=self._checkpoints,
            entries=self._entries,
            blobs=self._blobs,
            size=self._shrink(),
            is_alone=is_alone,
        )

    def _forget_checkpoints(self, kept: Collection[str]) -> None:
        for each in self.ledger.checkpoints():
            if each.id not in kept:
                with self.ledger.writing() as connection:
                    connection.execute("DELETE FROM checkpoints WHERE id = ?", (each.id,))
                self._checkpoints += 1

    # -- the journals -------------------------------------------------------------------------------

    def _forget_history(self, kept: Sequence[Checkpoint], since: str) -> None:
        naming: dict[str, list[Checkpoint]] = {}
        for checkpoint in kept:
            for before in checkpoint.files:
                naming.setdefault(before.path, []).append(checkpoint)
        runs = {each.run for each in kept}
        saving = [saving for intent in self.ledger.intents() for saving in intent.files]
        made = {name for run in runs for name in made_by(self.ledger.entries(run=run))}
        made |= {name for each in saving for name in each.ids}
        under_way = {each.path for each in saving}
        for path in self.ledger.paths():
            self._shorten(path, naming.get(path, ()), runs, made, since, is_needed=path in under_way)

    def _shorten(
        self,
        path: str,
        checkpoints: Sequence[Checkpoint],
        runs: Collection[str],
        made: Collection[str],
        since: str,
        *,
        is_needed: bool,
    ) -> None:
        entries = self._old_entries(path, since)
        if not entries:
            return
        review = self.ledger.get(path)
        needed = needed_from(entries, checkpoints, runs, since)
        if needed == len(entries) and not (review.hunks or checkpoints or is_needed):
            self._replace(review, entries, TruncatedHistory(FileReview(path=path), []))
            return
        recent = {name for each in entries if each.ts >= since for name in each.hunks}

        def is_kept(one: AppliedHunk) -> bool:
            return one.run in runs or one.id in made or one.id in recent

        with contextlib.suppress(StaleRevision):  # somebody changes it just now
            left = shortened(review, entries, needed, is_kept)
            if left is not None:
                self._replace(review, entries, left)

    def _old_entries(self, path: str, since: str) -> list[HistoryEntry]:
        """A file's journal; none if all but its beginning is new."""
        with self.ledger.reading() as connection:
            query = "SELECT data FROM entries WHERE path = ? ORDER BY n LIMIT ?"
            first = connection.execute(query, (path, 2)).fetchall()
            if len(first) > 1 and read_entry(first[1][0]).ts >= since:
                return []
            return [read_entry(data) for (data,) in connection.execute(query, (path, -1))]

    def _replace(self, review: FileReview, entries: Sequence[HistoryEntry], left: TruncatedHistory) -> None:
        """Put a shorter journal in the place of a file's, unless that has changed meanwhile."""
        path = review.path
        gone = len(entries) - len(left.entries)
        with self.ledger.writing() as connection:
            query = "SELECT n, data FROM entries WHERE path = ? ORDER BY n"
            rows = connection.execute(query, (path,)).fetchall()
            if len(rows) != len(entries) or read_entry(rows[-1][1]).id != entries[-1].id:
                return
            connection.executemany("DELETE FROM entries WHERE n = ?", [(n,) for n, _ in rows[:gone]])
            for (n, _), was, now in zip(rows[gone:], entries[gone:], left.entries, strict=True):
                if now is not was:
                    connection.execute(
                        "UPDATE entries SET run = ?, kind = ?, data = ? WHERE n = ?",
                        (now.run, now.kind, pack(msgspec.json.encode(now)), n),
                    )
            # Under another name, so that no process takes what it remembers for what is there.
            name, small = new_id(), msgspec.structs.replace(left.review, base=())
            if (
                not left.entries
            ):  # a page that still shows the file must not take its revision for a later one
                small = msgspec.structs.replace(small, rev=review.rev + 1)
                connection.execute("UPDATE bases SET data = ? WHERE path = ?", (b"[]", path))
            connection.execute("UPDATE bases SET name = ? WHERE path = ?", (name, path))
            connection.execute(
                "UPDATE files SET rev = ?, base = ?, review = ? WHERE path = ?",
                (small.rev, name, pack(msgspec.json.encode(small)), path),
            )
            self._entries += gone

    # -- blobs --------------------------------------------------------------------------------------

    def _sweep(self) -> bool:
        """Remove the blobs that nothing names; False if somebody else came in the way."""
        with self.ledger.reading() as connection:
            version = _version(connection)
            blobs = [row[0] for row in connection.execute("SELECT sha256 FROM blobs")]
        spare = sorted(set(blobs) - self._named())
        for at in range(0, len(spare), _STEP):
            with self.ledger.writing() as connection:
                # Who came and went may have named any of them, and who is there may rely on it.
                if _version(connection) != version or not self.ledger.is_alone():
                    return False
                gone = [(name,) for name in spare[at : at + _STEP] if name not in self._claimed]
                connection.executemany("DELETE FROM blobs WHERE sha256 = ?", gone)
                self._blobs += len(gone)
        return True

    def _named(self) -> set[str]:
        """The blobs that something names."""
        names: set[str] = set()
        where = self._folder / FILE
        try:
            with contextlib.closing(connect(where, read_only=True)) as connection:  # it keeps nobody waiting
                for table, column, pattern in _NAMING:
                    rows = connection.execute(f"SELECT {column} FROM {table}")  # noqa: S608 — words of ours
                    names.update(
                        found.decode() for (data,) in rows for found in pattern.findall(unpack(data))
                    )
        except sqlite3.Error as error:
            raise LEDGER.failure(str(where), error) from error
        for path in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # its process has ended
                if path.suffix in {".index", ".known"}:
                    names |= promised(path)
                elif path.suffix == ".running":
                    names |= hashes_in(read_regular(path, None))
        return names

    def _shrink(self) -> int:
        """Give pages back that are not used; returns the bytes of those that are."""
        while True:
            with self.ledger.reading() as connection:
                free = connection.execute("PRAGMA freelist_count").fetchone()[0]
                connection.execute(f"PRAGMA incremental_vacuum({_STEP})").fetchall()
                left = connection.execute("PRAGMA freelist_count").fetchone()[0]
                if left == free or not left:
                    pages = connection.execute("PRAGMA page_count").fetchone()[0]
                    return (pages - left) * connection.execute("PRAGMA page_size").fetchone()[0]


def _version(connection: sqlite3.Connection) -> int:
    """What is another once somebody else has written."""
    return connection.execute("PRAGMA data_version").fetchone()[0]
