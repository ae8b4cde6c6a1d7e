"""What changes in a ledger, by whomever: another thread, or another process that has it open.

    watch = Watch(ledger)
    while …:
        if news := watch.wait():
            …                                           # read the files of news.revs anew

Whoever changes something in this process wakes the watch; for what other processes did it looks twice a second.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

import msgspec

from newel.review.model.file_review import HunkState
from newel.review.store.ledger import Ledger
from newel.review.store.schema import unpack

EVERY: Final = 0.5
"""Seconds from one look at what other processes did to the next."""

MOST_PATHS: Final = 200
"""Files that are named one by one."""


Revs = dict[str, int]
"""Files whose reviews changed, by their names, with the revisions they are at; none of them stands for any file."""


class News(NamedTuple):
    """What changed. ``is_foreign``: another process was part of it."""

    revs: Revs
    is_foreign: bool


class _Seen(NamedTuple):
    """The number of the journal's last entry, and SQLite's count of what other connections have committed."""

    last: int
    version: int


class LedgerWatch:
    """Reads on in the journal of a ledger. To be closed. Methods raise ``LedgerError``, once the ledger is closed too."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._woken = threading.Event()
        self._leave = ledger.wake_on_change(self._woken.set)
        self._seen = self._look(0)[0]

    def wait(self) -> News | None:
        """What changed since the last call, as soon as there is something; None if that takes more than ``EVERY``. Blocks."""
        self._woken.wait(EVERY)
        self._woken.clear()  # before the look: what comes during it wakes the next one
        seen, revs = self._look(self._seen.last)
        before, self._seen = self._seen, seen
        # Who purges may take the latest entries away: what came instead of them cannot be told.
        is_cut = seen.last < before.last
        if not revs and not is_cut:
            return None
        is_named = not is_cut and len(revs) <= MOST_PATHS
        return News(revs if is_named else {}, seen.version != before.version)

    def close(self) -> None:
        """A thread that waits returns soon."""
        self._leave()
        self._woken.set()

    def _look(self, last: int) -> tuple[_Seen, Revs]:
        """How the ledger stands, and the files of entries behind ``last``: one more than are named, at most."""
        with self._ledger.reading() as connection:
            connection.execute("BEGIN")  # so that all of it is of one moment
            try:
                newest = connection.execute("SELECT coalesce(max(n), 0) FROM entries").fetchone()[0]
                version = connection.execute("PRAGMA data_version").fetchone()[0]
                rows = connection.execute(
                    """
                    SELECT path, rev FROM files
                    JOIN (SELECT DISTINCT path FROM entries NOT INDEXED WHERE n > ? LIMIT ?) USING (path)
                    """,
                    (last, MOST_PATHS + 1),
                )
                revs = dict(rows.fetchall())
            finally:
                connection.execute("COMMIT")
        return _Seen(newest, version), revs


# -- what changed since somebody looked ---------------------------------------------------------------

Revision = tuple[int, str]
"""What a file's review is at: its number, and the name of its base. While these are the same, it is."""


class _State(msgspec.Struct):
    state: HunkState = "pending"


class _States(msgspec.Struct):
    """As much of a review as says what waits in it."""

    hunks: tuple[_State, ...] = ()


def revisions(ledger: Ledger) -> dict[str, Revision]:
    """What the reviews of all files are at, by their names in their order. Blocks."""
    with ledger.reading() as connection:
        rows = connection.execute("SELECT path, rev, base FROM files ORDER BY path")
        return {path: (rev, base) for path, rev, base in rows}


def has_shown_hunks(ledger: Ledger, path: str) -> bool:
    """Whether a file has hunks that are not rejected; its text is not looked at. Blocks."""
    with ledger.reading() as connection:
        row = connection.execute("SELECT review FROM files WHERE path = ?", (path,)).fetchone()
    if row is None:
        return False
    return any(hunk.state != "rejected" for hunk in msgspec.json.decode(unpack(row[0]), type=_States).hunks)


def size_of_blob(ledger: Ledger, sha256: str) -> int:
    """How many bytes the data of a hash has; 0 if there is none. Blocks."""
    with ledger.reading() as connection:
        row = connection.execute("SELECT size FROM blobs WHERE sha256 = ?", (sha256,)).fetchone()
    return row[0] if row else 0
