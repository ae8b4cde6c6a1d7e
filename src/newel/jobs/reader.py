"""Reading a journal, beside whoever writes it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TypeVar

import anyio
import anyio.to_thread
import msgspec

from newel.jobs.engine import FINAL, EngineError, Job, JobState, JournalEntry, Lease
from newel.jobs.schema import JOURNAL

MAX_READ = 8 << 20
"""Bytes of events after which a read gives what it has."""

_JOBS = (
    "SELECT id, kind, queue, params, state, attempts, created, updated, reason,"
    " ifnull((SELECT max(seq) FROM events WHERE job = n), 0) FROM jobs "
)
_BY_ID = "WHERE id = ?"
_THAT_FIT = (
    "WHERE (:kind IS NULL OR kind = :kind) AND (:queue IS NULL OR queue = :queue)"
    " AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))"
    " ORDER BY n DESC LIMIT :limit"
)

T = TypeVar("T")


class Reader:
    """Answers in a thread, one question at a time. ``lock`` is held while the connection is in use."""

    def __init__(self, connection: sqlite3.Connection, path: str, lock: threading.Lock) -> None:
        self._connection = connection
        self._path = path
        self._lock = lock
        self._limiter = anyio.CapacityLimiter(1)

    async def get(self, job: str) -> Job | None:
        found = await self._ask(lambda db: db.execute(_JOBS + _BY_ID, (job,)).fetchone())
        return _job(found) if found is not None else None

    async def find(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        states: Sequence[JobState] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        wanted = {
            "kind": kind,
            "queue": queue,
            "states": None if states is None else msgspec.json.encode(states).decode(),
            "limit": limit,
        }
        rows = await self._ask(lambda db: db.execute(_JOBS + _THAT_FIT, wanted).fetchall())
        return [_job(row) for row in rows]

    async def read(self, job: str, after_seq: int, limit: int) -> tuple[list[JournalEntry], bool]:
        """Events, and whether they are the last: the job has ended, or there is none."""
        return await self._ask(lambda db: _read(db, job, after_seq, limit))

    async def current(self, leases: Sequence[Lease]) -> set[str]:
        """The jobs whose lease is held and wanted."""
        held = msgspec.json.encode([[lease.job, lease.attempt] for lease in leases]).decode()
        rows = await self._ask(
            lambda db: db.execute(
                "SELECT jobs.id FROM json_each(?) AS held JOIN jobs ON jobs.id = json_extract(held.value, '$[0]')"
                " WHERE attempts = json_extract(held.value, '$[1]') AND state = 'running' AND cancelled IS NULL",
                (held,),
            ).fetchall()
        )
        return {row[0] for row in rows}

    async def aclose(self) -> None:
        """Nothing can be asked afterwards."""
        await anyio.to_thread.run_sync(self._connection.close, limiter=self._limiter)

    async def _ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        def answer() -> T:
            with self._lock:
                return question(self._connection)

        try:
            return await anyio.to_thread.run_sync(answer, limiter=self._limiter)
        except sqlite3.ProgrammingError as error:
            raise EngineError(f"The journal {self._path} was closed.") from error
        except sqlite3.Error as error:
            raise JOURNAL.failure(self._path, error) from error


def _read(
    connection: sqlite3.Connection, job: str, after_seq: int, limit: int
) -> tuple[list[JournalEntry], bool]:
    # The state first: what has ended by now gets no event any more.
    row = connection.execute("SELECT n, state FROM jobs WHERE id = ?", (job,)).fetchone()
    if row is None:
        return [], True
    events: list[JournalEntry] = []
    size = 0
    rows = connection.execute(
        "SELECT seq, data FROM events WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?",
        (row[0], after_seq, limit),
    )
    with closing(rows):  # else what it still holds open would keep the journal from being tidied up
        for seq, data in rows:
            events.append(JournalEntry(job=job, seq=seq, data=data))
            size += len(data)
            if size > MAX_READ:
                break
    return events, row[1] in FINAL


def _job(row: tuple[str, str, str, bytes, JobState, int, str, str, str, int]) -> Job:
    job, kind, queue, params, state, attempts, created, updated, reason, seq = row
    return Job(
        id=job,
        kind=kind,
        queue=queue,
        params=params,
        state=state,
        attempts=attempts,
        seq=seq,
        created=created,
        updated=updated,
        reason=reason,
    )
