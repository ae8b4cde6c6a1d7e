"""Notices changes of a ledger, made by this process or by another one that has it open.

    watch = LedgerWatch(ledger)
    while …:
        if news := watch.wait():
            …                                           # read the files of news.revs again

A change of this process wakes the watch; it polls twice a second for those of other processes.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from newel.review.store.ledger import Ledger

POLL_INTERVAL_S: Final = 0.5

MAX_PATHS: Final = 200
"""With more changed files, their names are left out."""

Revs = dict[str, int]
"""The changed files and their revisions; empty if it could be any file."""


class News(NamedTuple):
    """A change of the ledger. ``is_foreign``: another process made some of it."""

    revs: Revs
    is_foreign: bool


class _Position(NamedTuple):
    """The number of the last history entry, and SQLite's count of commits by other connections."""

    last: int
    version: int


class LedgerWatch:
    """Follows the history of a ledger. Close it. Methods raise ``LedgerError``, also once the ledger is closed."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database
        self._woken = threading.Event()
        self._unsubscribe = ledger.on_change(self._woken.set)
        self._position = self._read(0)[0]

    def wait(self) -> News | None:
        """The changes since the last call, as soon as there are any; None after ``POLL_INTERVAL_S`` without one. Blocks."""
        self._woken.wait(POLL_INTERVAL_S)
        self._woken.clear()  # before reading: a change that comes meanwhile wakes the next call
        position, revs = self._read(self._position.last)
        before, self._position = self._position, position
        # A purge may have removed the latest entries: new ones then have their numbers, and cannot be told apart.
        is_truncated = position.last < before.last
        if not revs and not is_truncated:
            return None
        is_named = not is_truncated and len(revs) <= MAX_PATHS
        return News(revs if is_named else {}, position.version != before.version)

    def close(self) -> None:
        """Wakes a thread that is in ``wait``."""
        self._unsubscribe()
        self._woken.set()

    def _read(self, last: int) -> tuple[_Position, Revs]:
        """The current position, and the files of entries after ``last``: at most one more than ``MAX_PATHS``."""
        with self._database.reading() as connection:
            connection.execute("BEGIN")  # all queries see the same state
            try:
                newest = connection.execute("SELECT coalesce(max(n), 0) FROM entries").fetchone()[0]
                version = connection.execute("PRAGMA data_version").fetchone()[0]
                rows = connection.execute(
                    """
                    SELECT path, rev FROM files
                    JOIN (SELECT DISTINCT path FROM entries NOT INDEXED WHERE n > ? LIMIT ?) USING (path)
                    """,
                    (last, MAX_PATHS + 1),
                )
                revs = dict(rows.fetchall())
            finally:
                connection.execute("COMMIT")
        return _Position(newest, version), revs
