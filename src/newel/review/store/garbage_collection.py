"""Garbage collection of the ledger: removes checkpoints that are too old to undo, and all that only they needed.

First the oldest checkpoints go, then the history of each file that nothing needs any more, then the blobs that no checkpoint,
review, history or index names. A file's history goes as a whole or not at all; without one, the file counts as unknown.
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
from newel.review.model.file_review import FileReview
from newel.review.model.history import MOVES_BASE, HistoryEntry, made_by
from newel.review.store.database import LOCK
from newel.review.store.ledger import Checkpoint, Ledger
from newel.review.store.retention import RetentionPolicy
from newel.review.store.schema import FILE, HASH, LEDGER, hashes_in, pack, read_entry, unpack
from newel.storage.files import read_regular
from newel.storage.sqlite import connect
from newel.workspace.snapshots.index import referenced_blobs

PURGE_INTERVAL_S: Final = 24 * 3600.0

_STEP: Final = 500
"""Blobs, or pages of the file, that are removed in one transaction; others may write in between."""

_BLOB_LINE: Final = re.compile(rb"\\u0000sha256:([0-9a-f]{64})")

_NAMING: Final = (
    ("checkpoints", "data", HASH),
    ("intents", "data", HASH),
    ("effects", "data", HASH),
    ("files", "review", _BLOB_LINE),
    ("bases", "data", _BLOB_LINE),
    ("entries", "data", _BLOB_LINE),
)
"""Where blobs are named, and how. Hashes of texts occur there as well."""


class PurgeResult(Wire, frozen=True, kw_only=True):
    """What was removed; ``size`` is the bytes still in use. ``is_alone`` is False if blobs stayed because another process
    has the ledger open.
    """

    checkpoints: int = 0
    entries: int = 0
    blobs: int = 0
    size: int = 0
    is_alone: bool = True


def in_background(ledger: Ledger, notify: Callable[[str], None], keep: RetentionPolicy) -> None:
    """Purge a ledger that was just opened, in a thread, unless that was done within the last day. The thread ends with the
    ledger. ``notify`` gets a message for the user.
    """
    folder = ledger.folder
    if folder is None:
        return
    lock = folder / LOCK
    with contextlib.suppress(OSError):  # somebody removed it
        if time.time() - lock.stat().st_mtime < PURGE_INTERVAL_S:
            return
    claims = contextlib.ExitStack()
    claimed = claims.enter_context(ledger.claims())  # from now on, not from when the thread starts

    def work() -> None:
        with claims, contextlib.suppress(NewelError, OSError):  # the next purge does the rest
            done = _purge(_Purge(ledger, folder, claimed), keep, datetime.now(UTC))
            os.utime(lock)
            if done.size > keep.size:
                notify(
                    f"The review ledger {folder} takes {done.size / 2**30:.1f} GiB, more than "
                    f"{keep.size / 2**30:.1f} GiB, even without what is older than a day. To free the space, move the "
                    "folder away; changes recorded until now can then no longer be undone."
                )

    threading.Thread(target=work, name="newel-purge", daemon=True).start()


def purge(ledger: Ledger, keep: RetentionPolicy, *, now: datetime | None = None) -> PurgeResult:
    """Remove what the retention policy does not keep. Does nothing to a ledger in memory. A blob that this process stored
    before goes too if nothing names it. Raises ``LedgerError``.
    """
    if ledger.folder is None:
        return PurgeResult()
    with ledger.claims() as claimed:
        return _purge(_Purge(ledger, ledger.folder, claimed), keep, now or datetime.now(UTC))


def _purge(steps: _Purge, keep: RetentionPolicy, now: datetime) -> PurgeResult:
    old = _timestamp(now - timedelta(days=keep.days))
    recent = _timestamp(now - timedelta(days=1))
    checkpoints = steps.ledger.checkpoints()
    pinned = _unsaved_checkpoints(steps.ledger, checkpoints)
    remaining = [
        checkpoint
        for n, checkpoint in enumerate(checkpoints)
        if n < keep.runs or checkpoint.created >= old or checkpoint.id in pinned
    ]
    done = steps.remove_all_but(remaining, since=old)
    while done.size > keep.size and done.is_alone:  # otherwise removing more frees nothing
        spare = [
            candidate for candidate in remaining if candidate.created < recent and candidate.id not in pinned
        ]
        if not spare:
            break
        gone = {candidate.id for candidate in spare[len(spare) // 2 :]}
        remaining = [candidate for candidate in remaining if candidate.id not in gone]
        done = steps.remove_all_but(remaining, since=recent)
    return done


def _timestamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _unsaved_checkpoints(ledger: Ledger, checkpoints: Sequence[Checkpoint]) -> set[str]:
    """The checkpoints of runs with hunks that are not saved."""
    runs: set[str] = set()
    hunks: set[str] = set()
    for path in ledger.paths():
        for hunk in ledger.get(path).hunks:
            runs |= {layer.run for layer in hunk.layers}
            hunks.add(hunk.id)
    return {
        checkpoint.id
        for checkpoint in checkpoints
        if checkpoint.run in runs
        or (hunks and not hunks.isdisjoint(made_by(ledger.entries(run=checkpoint.run))))
    }


class _Purge:
    """The steps of a purge, and its counts so far."""

    def __init__(self, ledger: Ledger, folder: Path, claimed: Collection[str]) -> None:
        self.ledger = ledger
        self._database = ledger.database
        self._folder = folder
        self._claimed = claimed
        self._checkpoints = 0
        self._entries = 0
        self._blobs = 0

    def remove_all_but(self, remaining: Sequence[Checkpoint], *, since: str) -> PurgeResult:
        """Remove the other checkpoints, the histories that only they need and that ended before ``since``, and all blobs that
        nothing names.
        """
        self.ledger.purges += 1
        self._remove_checkpoints({checkpoint.id for checkpoint in remaining})
        self._remove_histories(remaining, since)
        is_alone = self._sweep()
        return PurgeResult(
            checkpoints=self._checkpoints,
            entries=self._entries,
            blobs=self._blobs,
            size=self._shrink(),
            is_alone=is_alone,
        )

    def _remove_checkpoints(self, remaining: Collection[str]) -> None:
        for checkpoint in self.ledger.checkpoints():
            if checkpoint.id not in remaining:
                with self._database.writing() as connection:
                    connection.execute("DELETE FROM checkpoints WHERE id = ?", (checkpoint.id,))
                self._checkpoints += 1

    def _remove_histories(self, remaining: Sequence[Checkpoint], since: str) -> None:
        runs = {checkpoint.run for checkpoint in remaining}
        needed = {before.path for checkpoint in remaining for before in checkpoint.files}
        needed |= {planned.path for intent in self.ledger.intents() for planned in intent.files}
        pending = (self.ledger.effects(owner).values() for owner in self.ledger.effect_owners())
        needed |= {effect.path for effects in pending for effect in effects if effect.path is not None}
        for path in self.ledger.paths():
            if path not in needed:
                entries = self.ledger.entries(path=path)
                review = self.ledger.get(path)
                if not (review.hunks or _is_needed(entries, runs, since)):
                    self._remove_history(review, entries)

    def _remove_history(self, review: FileReview, entries: Sequence[HistoryEntry]) -> None:
        """Make a file unknown, unless it has changed meanwhile."""
        path = review.path
        with self._database.writing() as connection:
            query = "SELECT data FROM entries WHERE path = ? ORDER BY n DESC LIMIT 1"
            last = connection.execute(query, (path,)).fetchone()
            if last is None or read_entry(last[0]).id != entries[-1].id:
                return
            connection.execute("DELETE FROM entries WHERE path = ?", (path,))
            # The revision goes on, so that a page that still shows the file cannot take it for the one it knows. The name of
            # the base is new, so that no process takes its cached review for the current one.
            name, empty = new_id(), FileReview(path=path, rev=review.rev + 1)
            connection.execute("UPDATE bases SET name = ?, data = ? WHERE path = ?", (name, b"[]", path))
            connection.execute(
                "UPDATE files SET rev = ?, base = ?, review = ? WHERE path = ?",
                (empty.rev, name, pack(msgspec.json.encode(empty)), path),
            )
            self._entries += len(entries)

    # -- blobs --------------------------------------------------------------------------------------

    def _sweep(self) -> bool:
        """Remove the blobs that nothing names; False if another process prevented it."""
        with self._database.reading() as connection:
            version = _version(connection)
            blobs = [row[0] for row in connection.execute("SELECT sha256 FROM blobs")]
        spare = sorted(set(blobs) - self._named_blobs())
        for at in range(0, len(spare), _STEP):
            with self._database.writing() as connection:
                # A process that came and went may have named any of them, and one that is there may rely on it.
                if _version(connection) != version or not self._database.is_alone():
                    return False
                gone = [(name,) for name in spare[at : at + _STEP] if name not in self._claimed]
                connection.executemany("DELETE FROM blobs WHERE sha256 = ?", gone)
                self._blobs += len(gone)
        return True

    def _named_blobs(self) -> set[str]:
        """The blobs that something names."""
        names: set[str] = set()
        where = self._folder / FILE
        try:
            with contextlib.closing(connect(where, read_only=True)) as connection:  # blocks no other process
                for table, column, pattern in _NAMING:
                    rows = connection.execute(f"SELECT {column} FROM {table}")  # noqa: S608 — names of ours
                    names.update(name.decode() for (data,) in rows for name in pattern.findall(unpack(data)))
        except sqlite3.Error as error:
            raise LEDGER.failure(str(where), error) from error
        for path in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # its process has ended
                if path.suffix in {".index", ".known"}:
                    names |= referenced_blobs(path)
                elif path.suffix == ".running":
                    names |= hashes_in(read_regular(path, None))
        return names

    def _shrink(self) -> int:
        """Return unused pages to the file system; returns the bytes in use."""
        while True:
            with self._database.reading() as connection:
                free = connection.execute("PRAGMA freelist_count").fetchone()[0]
                connection.execute(f"PRAGMA incremental_vacuum({_STEP})").fetchall()
                free_pages = connection.execute("PRAGMA freelist_count").fetchone()[0]
                if free_pages == free or not free_pages:
                    pages = connection.execute("PRAGMA page_count").fetchone()[0]
                    return (pages - free_pages) * connection.execute("PRAGMA page_size").fetchone()[0]


def _version(connection: sqlite3.Connection) -> int:
    """Changes when another connection has written."""
    return connection.execute("PRAGMA data_version").fetchone()[0]


def _is_needed(entries: Sequence[HistoryEntry], runs: Collection[str], since: str) -> bool:
    """Whether a history has entries of these runs, is recent, or ends with a change that can be undone."""
    last = entries[-1]
    return last.ts >= since or last.kind not in MOVES_BASE or any(entry.run in runs for entry in entries)
