"""The engine for many machines, on PostgreSQL.

    async with open_postgres_engine("postgresql://host/newel?sslmode=verify-full") as engine:
        job = await engine.submit("fleet_contract", b"{}", queue=session, labels=["gpu"])

    newel.jobs ── the head of each queue ──→ a task of absurd ── claim ──→ a run of absurd, the lease
        ↑                                                                          │
        └──── finish: the state, and the next head, in one transaction ────────────┘

Each method is one function of the schema ``newel``, so one transaction; see ``functions.sql``. A lease ends by time, also for
a worker that cannot reach the database: ``renew`` then reports its jobs as lost before another worker can have them.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import anyio.lowlevel

from newel.agent.messages import new_id
from newel.concurrency import background_tasks
from newel.jobs.engine import (
    FINAL,
    EngineError,
    Job,
    JobCancelled,
    JobOutcome,
    JobState,
    JournalEntry,
    Lease,
    LeaseLost,
)
from newel.jobs.notifier import CANCELLED, NO_EVENT, QUEUES, Notifier
from newel.jobs.placement import WorkerIdentity, WorkerInfo
from newel.jobs.postgres.appends import Appends, PendingAppend
from newel.jobs.postgres.budgets import PostgresBudgets
from newel.jobs.postgres.bulletin import Bulletin
from newel.jobs.postgres.database import PATIENCE_S, Connection, Database, poll_interval
from newel.jobs.postgres.failures import DatabaseUnavailable
from newel.jobs.postgres.fleets import PostgresFleets
from newel.jobs.postgres.leases import HeldLeases, taken_over
from newel.jobs.postgres.live import PostgresLive
from newel.jobs.postgres.retention import PostgresRetention
from newel.jobs.postgres.rows import JOBS, fetch_entries, iso, job_of
from newel.jobs.postgres.schema import migrate

RENEW_WAIT_S: Final = 1.0
"""The longest until a cancellation is noticed whose notification was lost."""
CLEAN_INTERVAL_S: Final = 60.0

_CLAIM: Final = "SELECT * FROM newel.claim($1, $2, $3, $4, $5, $6)"
_WORKERS: Final = """
    SELECT name, machine, version, labels, slots, draining, expires > clock_timestamp() AS alive, seen,
        (SELECT count(*) FROM newel.jobs WHERE worker = name AND state = 'running') AS running
    FROM newel.workers WHERE seen > clock_timestamp() - interval '1 day' ORDER BY name
"""


@asynccontextmanager
async def open_postgres_engine(
    url: str, *, worker: WorkerIdentity | None = None, lease: float = 30.0
) -> AsyncGenerator[PostgresEngine]:
    """The engine of a database, whose schema is installed if it is missing. ``worker`` says who claims jobs; without it, those without
    labels are claimed. ``lease`` is in seconds, at least 1. Raises ``EngineError``.
    """
    database = Database(url)
    engine = PostgresEngine(database, worker, max(1, round(lease)))
    try:
        patience = 0.0 if worker is None else PATIENCE_S  # a worker may start before its database
        await database.call(lambda connection: migrate(connection, database.place), patience=patience)
        await engine.beat()
        async with background_tasks(*engine.tasks()):
            try:
                yield engine
            finally:
                await engine.aclose()
    finally:
        database.close()


class PostgresEngine:
    """Fulfils ``newel.jobs.engine.Engine`` and ``newel.fleet.engine.FleetEngine``; see there. Use ``open_postgres_engine``.

    A job with a delayed retry blocks its queue, and so does one that is asking; one that is waiting does not. A method waits for an
    unavailable database for ten seconds; ``append`` for as long as its lease. A job that was on a machine is
    offered to that machine's workers first, for two seconds.
    """

    def __init__(self, database: Database, worker: WorkerIdentity | None, lease: int) -> None:
        self._database = database
        self._worker = worker
        self._lease = lease
        self._held = HeldLeases(lease)
        self._notifier = Notifier()
        self._bulletin = Bulletin(database, self._notifier)
        self._appends = Appends(database, lease)
        self.budgets = PostgresBudgets(database, worker.name if worker is not None else "")
        self.fleets = PostgresFleets(database)
        self.retention = PostgresRetention(database)
        self.live = PostgresLive(database, self._notifier, self._post)
        self._last_beat = -float("inf")
        self._closed = False

    def tasks(self) -> list[Any]:
        """What runs in the background while the engine is open."""
        cleaning = [self._clean] if self._worker is not None else []
        return [self._appends.run, self._bulletin.send, self._bulletin.listen, *cleaning]

    # -- for those who submit -----------------------------------------------------------------------------

    async def submit(
        self, kind: str, params: bytes, *, queue: str, key: str | None = None, labels: Sequence[str] = ()
    ) -> str:
        for text in (kind, queue, key or "", *labels):
            text.encode()  # raises UnicodeEncodeError, as every engine
        values = (new_id(), key, kind, queue, list(labels), params)
        job = await self._database.value("SELECT newel.submit($1, $2, $3, $4, $5, $6)", *values)
        self._post(QUEUES)
        return job

    async def cancel(self, job: str, reason: str) -> bool:
        done = await self._database.value("SELECT newel.cancel($1, $2)", job, _storable(reason))
        self._post(job, QUEUES, CANCELLED)
        return done

    async def suspend(self, jobs: Sequence[str], reason: str) -> None:
        await self._database.value("SELECT newel.suspend($1, $2)", list(jobs), _storable(reason))
        self._post(QUEUES)

    async def annotate(
        self, job: str, events: Sequence[bytes], *, expect_seq: int, outcome: JobOutcome | None = None
    ) -> int:
        ended = (None, "") if outcome is None else (outcome.state, _storable(outcome.reason))
        values = (job, expect_seq, list(events), *ended)
        seq = await self._database.value("SELECT newel.annotate($1, $2, $3, $4, $5)", *values)
        if seq is None:
            raise LeaseLost(
                f"Run {job} is queued or running, or does not exist; only its worker may add to its journal."
            )
        self._post(job, QUEUES)
        return _checked_seq(job, expect_seq, seq)

    async def purge(self, job: str) -> bool:
        done = await self._database.value("SELECT newel.purge($1)", job)
        self._post(job)
        return done

    # -- for workers --------------------------------------------------------------------------------------

    async def claim(
        self, free: int, worker: str, *, queues: Sequence[str] | None = None, wait: float = 0.0
    ) -> list[Lease]:
        async def query(connection: Connection) -> tuple[float, list[Any]]:
            # of this try: an earlier one may have claimed others, whose leases end
            started = time.monotonic()
            return started, await connection.fetch(_CLAIM, worker, machine, labels, self._lease, free, wanted)

        async def claim() -> tuple[list[Lease], bool, float]:
            await self.beat()
            started, rows = await self._database.call(query)
            leases = [_lease(row, worker) for row in rows]
            for lease in leases:
                self._held.add(lease, started)
            return leases, bool(leases), poll_interval()

        if free <= 0 or (queues is not None and not queues):
            return []
        machine, labels = ("", []) if self._worker is None else (self._worker.machine, self._worker.labels)
        wanted = None if queues is None else list(queues)
        return await self._notifier.poll(claim, wait, QUEUES)

    async def append(self, lease: Lease, events: Sequence[bytes], *, expect_seq: int) -> int:
        await anyio.lowlevel.checkpoint_if_cancelled()
        with anyio.fail_after(None, shield=True):
            while True:
                self._check_open()
                self._held.check(lease)
                started, is_due = time.monotonic(), self._held.is_due(lease)
                append = PendingAppend(lease.job, lease.token, events, expect_seq, extend=is_due)
                try:
                    await self._appends(append)
                except DatabaseUnavailable:
                    self._held.drop_expired([lease])
                    await anyio.sleep(poll_interval())
                    continue
                if is_due and append.seq is not None:
                    self._held.extend(lease, started)
                return self._appended(lease, append)

    def _appended(self, lease: Lease, append: PendingAppend) -> int:
        if append.cancelled is not None:
            raise JobCancelled(append.cancelled)
        if append.seq is None:
            self._held.remove(lease)
            raise taken_over(lease)
        seq = _checked_seq(lease.job, append.expect_seq, append.seq)
        self._notifier.notify(lease.job, seq)
        self._bulletin.post(lease.job)
        return seq

    async def renew(self, leases: Sequence[Lease], *, wait: float = 0.0) -> set[str]:
        """Returns after a second at the latest: the leases have to be extended then."""
        with self._notifier.listen(CANCELLED) as cancelled:
            lost = self._held.drop_expired(leases)
            try:
                lost |= await self._renew([lease for lease in leases if lease.job not in lost])
            except EngineError:
                self._check_open()
                lost |= self._held.drop_expired(leases)
            if not lost:
                with anyio.move_on_after(min(wait, RENEW_WAIT_S)):
                    await cancelled.wait()
            return lost

    async def _renew(self, leases: Sequence[Lease]) -> set[str]:
        remaining = min((self._held.remaining(lease) for lease in leases), default=self._lease)
        within = max(0.1, min(self._lease / 4, remaining))
        await self.beat(within)
        if not leases:
            return set()
        started = time.monotonic()
        due = [self._held.is_due(lease) for lease in leases]
        values = ([lease.job for lease in leases], [lease.token for lease in leases], due, self._lease)
        query = "SELECT newel.renew($1, $2::text[]::uuid[], $3, $4)"
        rows = await self._database.rows(query, *values, patience=0, within=within)
        lost = {row[0] for row in rows}
        for lease, is_due in zip(leases, due, strict=True):
            if is_due and lease.job not in lost:
                self._held.extend(lease, started)
        return lost

    async def finish(self, lease: Lease, outcome: JobOutcome) -> None:
        self._held.check(lease)
        reason, result = _storable(outcome.reason), _storable(outcome.result)
        values = (lease.job, lease.token, outcome.state, reason, outcome.delay, result)
        is_done = await self._database.value(
            "SELECT newel.finish($1, $2::text::uuid, $3, $4, $5, $6)", *values
        )
        self._held.remove(lease)
        if not is_done:
            raise taken_over(lease)
        self._post(lease.job, QUEUES)

    async def beat(self, within: float = PATIENCE_S) -> None:
        """Say that the worker lives, if a third of the time is up in which it counts as alive."""
        me, now = self._worker, time.monotonic()
        if me is None or now < self._last_beat + self._lease / 3:
            return
        values = (me.name, me.machine, me.version, me.labels, me.slots, float(self._lease))
        query = "SELECT newel.heartbeat($1, $2, $3, $4, $5, $6)"
        await self._database.rows(query, *values, patience=0, within=within)
        self._last_beat = now

    async def _clean(self) -> None:
        while True:
            await anyio.sleep(CLEAN_INTERVAL_S * random.uniform(0.5, 1.5))  # noqa: S311 — to spread the workers
            with contextlib.suppress(EngineError):
                await self._database.value("SELECT newel.clean()")

    # -- for readers --------------------------------------------------------------------------------------

    async def read(
        self, job: str, after_seq: int = 0, *, limit: int = 1000, wait: float = 0.0
    ) -> list[JournalEntry]:
        """A page of long events is shorter than ``limit``: only an empty page is the last."""

        async def query(connection: Connection) -> tuple[list[JournalEntry], bool]:
            # The state first: a job that has ended by now gets no more events.
            row = await connection.fetchrow("SELECT n, state FROM newel.jobs WHERE id = $1", job)
            if row is None:
                return [], True
            entries = await fetch_entries(connection, row["n"], job, after_seq, limit)
            return entries, bool(entries) or row["state"] in FINAL

        async def read() -> tuple[list[JournalEntry], bool, float]:
            return *await self._database.call(query), poll_interval()

        return await self._notifier.poll(read, wait, job, after_seq)

    async def get(self, job: str) -> Job | None:
        rows = await self._database.rows(JOBS + " WHERE j.id = $1", job)
        return job_of(rows[0]) if rows else None

    async def wait_for_release(self, job: str, *, wait: float) -> bool:
        async def check() -> tuple[bool, bool, float]:
            job_now = await self.get(job)
            is_released = job_now is None or job_now.state != "running"
            return is_released, is_released, poll_interval()

        return await self._notifier.poll(check, wait, job, NO_EVENT)

    async def find(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        states: Sequence[JobState] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        where = (
            " WHERE ($1::text IS NULL OR j.kind = $1) AND ($2::text IS NULL OR j.queue = $2)"
            " AND ($3::text[] IS NULL OR j.state = ANY ($3)) ORDER BY j.n DESC LIMIT $4"
        )
        values = (kind, queue, None if states is None else list(states), limit)
        return [job_of(row) for row in await self._database.rows(JOBS + where, *values)]

    async def states(self, jobs: Sequence[str]) -> dict[str, JobState]:
        rows = await self._database.rows("SELECT id, state FROM newel.jobs WHERE id = ANY ($1)", list(jobs))
        return {row["id"]: row["state"] for row in rows}

    async def workers(self) -> list[WorkerInfo]:
        rows: list[dict[str, Any]] = [
            {**row, "seen": iso(row["seen"])} for row in await self._database.rows(_WORKERS)
        ]
        return [WorkerInfo(**row) for row in rows]

    async def drain(self, worker: str) -> bool:
        return await self._database.value("SELECT newel.drain($1)", worker)

    async def is_draining(self) -> bool:
        if self._worker is None:
            return False
        query = "SELECT coalesce(bool_or(draining), false) FROM newel.workers WHERE name = $1"
        return await self._database.value(query, self._worker.name)

    # -- the rest -----------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the engine. Its running jobs can be claimed at once."""
        if self._closed:
            return
        self._closed = True
        leases = self._held.all()
        # at worst the leases end later
        with anyio.CancelScope(shield=True), contextlib.suppress(EngineError):
            if leases:
                values = ([lease.job for lease in leases], [lease.token for lease in leases])
                query = "SELECT newel.release($1, $2::text[]::uuid[])"
                await self._database.rows(query, *values, patience=0, within=PATIENCE_S)
            if self._worker is not None:
                self._last_beat, self._lease = -float("inf"), 0
                await self.beat()
        self._database.close()
        self._notifier.notify_all()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError(f"The engine {self._database.place} was closed.")

    def _post(self, *topics: str) -> None:
        for topic in topics:
            self._notifier.notify(topic)
        self._bulletin.post(*topics)


def _lease(row: Any, worker: str) -> Lease:
    values: dict[str, Any] = {**row, "worker": worker, "token": str(row["run"])}
    del values["run"]
    return Lease(**values)


def _checked_seq(job: str, expect_seq: int, seq: int) -> int:
    if seq < 0:
        raise LeaseLost(
            f"The journal of run {job} has {-1 - seq} events instead of {expect_seq}: another worker has written to it."
        )
    return seq


def _storable(reason: str) -> str:
    """A reason may quote what PostgreSQL does not store: replace it by question marks."""
    return reason.encode("utf-8", "replace").decode().replace("\0", "?")
