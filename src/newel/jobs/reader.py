"""Reads a journal, concurrently with its writer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec

from newel.jobs.engine import FINAL, EngineError, Job, JobState, JournalEntry, Lease
from newel.jobs.schema import JOURNAL

MAX_READ_BYTES = 8 << 20
"""Of events, after which a read returns."""

_JOB_FIELDS = ("id", "kind", "queue", "params", "state", "attempts", "created", "updated", "reason", "seq")
_JOBS = (
    "SELECT id, kind, queue, params, state, attempts, created, updated, reason,"
    " ifnull((SELECT max(seq) FROM events WHERE job = n), 0) FROM jobs "
)
_BY_ID = "WHERE id = ?"
_MATCHING = (
    "WHERE (:kind IS NULL OR kind = :kind) AND (:queue IS NULL OR queue = :queue)"
    " AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))"
    " ORDER BY n DESC LIMIT :limit"
)

T = TypeVar("T")


class Reader:
    """Runs one query at a time, in a thread. ``lock`` guards the connection."""

    def __init__(self, connection: sqlite3.Connection, path: str, lock: threading.Lock) -> None:
        self._connection = connection
        self._path = path
        self._lock = lock
        self._limiter = anyio.CapacityLimiter(1)

    async def get(self, job: str) -> Job | None:
        row = await self._query(lambda db: db.execute(_JOBS + _BY_ID, (job,)).fetchone())
        return _job(row) if row is not None else None

    async def find(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        states: Sequence[JobState] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        parameters = {
            "kind": kind,
            "queue": queue,
            "states": None if states is None else msgspec.json.encode(states).decode(),
            "limit": limit,
        }
        rows = await self._query(lambda db: db.execute(_JOBS + _MATCHING, parameters).fetchall())
        return [_job(row) for row in rows]

    async def read(self, job: str, after_seq: int, limit: int) -> tuple[list[JournalEntry], bool]:
        """Events, and whether no more can come: the job has ended or does not exist."""
        return await self._query(lambda db: _read(db, job, after_seq, limit))

    async def current(self, leases: Sequence[Lease]) -> set[str]:
        """The jobs whose lease is valid and which are not cancelled."""
        held = msgspec.json.encode([[lease.job, lease.attempt] for lease in leases]).decode()
        rows = await self._query(
            lambda db: db.execute(
                "SELECT jobs.id FROM json_each(?) AS held JOIN jobs ON jobs.id = json_extract(held.value, '$[0]')"
                " WHERE attempts = json_extract(held.value, '$[1]') AND state = 'running' AND cancelled IS NULL",
                (held,),
            ).fetchall()
        )
        return {row[0] for row in rows}

    async def aclose(self) -> None:
        """Close the connection; later queries raise ``EngineError``."""
        await anyio.to_thread.run_sync(self._connection.close, limiter=self._limiter)

    async def _query(self, query: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            with self._lock:
                return query(self._connection)

        try:
            return await anyio.to_thread.run_sync(run, limiter=self._limiter)
        except sqlite3.ProgrammingError as error:
            raise EngineError(f"The journal {self._path} was closed.") from error
        except sqlite3.Error as error:
            raise JOURNAL.failure(self._path, error) from error


def _read(
    connection: sqlite3.Connection, job: str, after_seq: int, limit: int
) -> tuple[list[JournalEntry], bool]:
    # The state first: a job that has ended by now gets no more events.
    row = connection.execute("SELECT n, state FROM jobs WHERE id = ?", (job,)).fetchone()
    if row is None:
        return [], True
    events: list[JournalEntry] = []
    size = 0
    rows = connection.execute(
        "SELECT seq, data FROM events WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?",
        (row[0], after_seq, limit),
    )
    with closing(rows):  # an open cursor would keep SQLite from truncating its log
        for seq, data in rows:
            events.append(JournalEntry(job=job, seq=seq, data=data))
            size += len(data)
            if size > MAX_READ_BYTES:
                break
    return events, row[1] in FINAL


def _job(row: tuple[Any, ...]) -> Job:
    return Job(**dict(zip(_JOB_FIELDS, row, strict=True)))
