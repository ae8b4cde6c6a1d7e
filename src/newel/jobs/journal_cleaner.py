"""Deletes from the journal of a folder that no process owns, so that nothing of it stays in the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from newel.jobs.directory_lock import DirectoryLock
from newel.jobs.engine import FINAL
from newel.jobs.queries import FILE, JOURNAL
from newel.storage.sqlite import connect, roll_back


class JournalCleaner:
    """Use ``open``. The methods raise ``sqlite3.Error``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def open(cls, folder: Path) -> Generator[JournalCleaner]:
        """One transaction: everything that is deleted within, or nothing if the body raises. Raises ``EngineError``, also if a
        process owns the folder.
        """
        owner = DirectoryLock(folder)
        try:
            connection = connect(folder / FILE)
            try:
                JOURNAL.migrate(connection, str(folder / FILE))
                connection.execute("BEGIN IMMEDIATE")
                yield cls(connection)
                connection.execute("COMMIT")
                if connection.total_changes:
                    connection.execute("VACUUM")
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                roll_back(connection)
                connection.close()
        except sqlite3.Error as error:
            raise JOURNAL.failure(str(folder / FILE), error) from error
        finally:
            owner.release()

    def delete_jobs(self, is_deleted: Callable[[bytes], bool]) -> None:
        """Delete the jobs, in any state, of whose parameters this is true."""
        rows = self._connection.execute("SELECT n, params FROM jobs").fetchall()
        self._delete([n for n, params in rows if is_deleted(params)])

    def delete_ended_jobs(self, before: datetime) -> list[bytes]:
        """Delete the jobs that ended before a time, in UTC; returns their parameters."""
        states = ", ".join(f"'{state}'" for state in sorted(FINAL))
        rows = self._connection.execute(
            f"SELECT n, params FROM jobs WHERE state IN ({states}) AND updated < ?",  # noqa: S608 — the states are ours
            (before.strftime("%Y-%m-%dT%H:%M:%S"),),
        ).fetchall()
        self._delete([n for n, _ in rows])
        return [params for _, params in rows]

    def events(self, kind: str) -> list[tuple[int, int, bytes]]:
        """The job, the number and the data of all events of a kind of job."""
        query = "SELECT job, seq, data FROM events JOIN jobs ON job = n WHERE kind = ? ORDER BY job, seq"
        return self._connection.execute(query, (kind,)).fetchall()

    def delete_events(self, events: list[tuple[int, int]]) -> None:
        """Delete single events, by job and number; the others keep their numbers."""
        self._connection.executemany("DELETE FROM events WHERE job = ? AND seq = ?", events)

    def _delete(self, jobs: list[int]) -> None:
        for table, column in (("events", "job"), ("jobs", "n")):
            self._connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", [(n,) for n in jobs])  # noqa: S608 — as above
