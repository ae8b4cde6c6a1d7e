"""Passes on what the journals of running jobs lack, from their workers to readers on other machines.

    reader ── asks, once a second ──→ a notification ──→ the job's worker
       ↑                                                          │ while it is asked
       └── reads it with the journal ←── newel.live ←─────────────┘

Nothing is written for a job that nobody watches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import anyio

from newel.jobs.engine import FINAL, EngineError, Lease
from newel.jobs.notifier import Notifier
from newel.jobs.placement import JobPage, LiveData
from newel.jobs.postgres.database import Connection, Database, poll_interval
from newel.jobs.postgres.rows import fetch_entries, iso

ASK_INTERVAL_S: Final = 1.0
ASKED_S: Final = 5.0
"""How long a worker writes after it was asked."""
WRITE_INTERVAL_S: Final = 0.2
WRITE_WITHIN_S: Final = 5.0
"""The longest that one write may hold up the end of a job."""
MAX_BYTES: Final = 1_000_000
"""Of a job's live data; longer data is not passed on."""
BYTES_PER_S: Final = 500_000
"""That a worker writes for one job."""

_JOB: Final = """
    SELECT j.n, j.state, j.updated, l.version, l.seq, CASE WHEN l.version <> $2 THEN l.data END AS data
    FROM newel.jobs j LEFT JOIN newel.live l
        ON l.job = j.n AND l.run = j.run AND j.state = 'running' AND octet_length(l.data) <= $3
    WHERE j.id = $1
"""


class PostgresLive:
    """Fulfils ``newel.fleet.engine.LiveUpdates``; see there. ``post`` notifies all processes of topics."""

    def __init__(self, database: Database, notifier: Notifier, post: Callable[[str], None]) -> None:
        self._database = database
        self._notifier = notifier
        self._post = post
        self._asked: dict[str, float] = {}

    async def write(self, lease: Lease, read: Callable[[], LiveData]) -> None:
        topic, written = _topic(lease.job), None
        while True:
            with self._notifier.listen(topic) as asked:
                await asked.wait()
            until = anyio.current_time() + ASKED_S
            while anyio.current_time() < until:
                with self._notifier.listen(topic) as asked:
                    if (live := read()) != written and await self._put(lease, live):
                        written = live
                    await anyio.sleep(WRITE_INTERVAL_S + len(live.data) / BYTES_PER_S)
                    if asked.is_set():
                        until = anyio.current_time() + ASKED_S

    async def _put(self, lease: Lease, live: LiveData) -> bool:
        """Returns whether the database has it: what it lacks is written a moment later, or superseded."""
        data = live.data if len(live.data) <= MAX_BYTES else b""
        query = "SELECT newel.put_live($1, $2::text::uuid, $3, $4)"
        values = (lease.job, lease.token, live.seq, data)
        try:
            await self._database.rows(query, *values, patience=0, within=WRITE_WITHIN_S)
        except EngineError:
            return False
        self._post(lease.job)
        return True

    async def read(
        self,
        job: str,
        after_seq: int = 0,
        *,
        version: int = 0,
        updated: str = "",
        limit: int = 1000,
        wait: float = 0.0,
    ) -> JobPage | None:
        async def query(connection: Connection) -> JobPage | None:
            # The state first: a job that has ended by now gets no more events.
            row = await connection.fetchrow(_JOB, job, version, MAX_BYTES)
            if row is None:
                return None
            return JobPage(
                entries=await fetch_entries(connection, row["n"], job, after_seq, limit),
                state=row["state"],
                updated=iso(row["updated"]),
                version=row["version"] or 0,
                live=None if row["data"] is None else LiveData(seq=row["seq"], data=row["data"]),
            )

        async def read() -> tuple[JobPage | None, bool, float]:
            page = await self._database.call(query)
            is_new = (
                page is None
                or bool(page.entries)
                or page.state in FINAL
                or (page.version, page.updated) != (version, updated)
            )
            return page, is_new, poll_interval()

        self._ask(job)
        return await self._notifier.poll(read, wait, job, after_seq)

    def _ask(self, job: str) -> None:
        now = time.monotonic()
        self._asked = {each: when for each, when in self._asked.items() if when > now - ASK_INTERVAL_S}
        if job not in self._asked:
            self._asked[job] = now
            self._post(_topic(job))


def _topic(job: str) -> str:
    """What a worker is notified of that is asked about a job."""
    return f"live {job}"
