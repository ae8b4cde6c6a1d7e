"""If these fail, a database grows without end, or a clean-up takes what is still needed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from importlib.resources import files

import anyio
import pytest

from newel.jobs.engine import EngineError, JobOutcome
from newel.jobs.placement import WorkerIdentity
from newel.jobs.postgres.engine import PostgresEngine, open_postgres_engine
from tests.postgres import PostgresServer

pytestmark = pytest.mark.anyio

ROLES = files("newel.jobs.postgres").joinpath("create_roles.sql").read_text()
DAY_S = 86_400.0


class Fleets:
    """Fleets in a database whose clock can be moved."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.database = server.create_database()
        self.url = server.url(self.database)
        self.engine: PostgresEngine

    def sql(self, text: str) -> str:
        return self._server.execute(text, self.database)

    def age(self, days: float) -> None:
        """Let so many days pass for what is there now."""
        for table, column in (
            ("jobs", "updated"),
            ("fleets", "created"),
            ("removals", "created"),
            ("removals", "due"),
        ):
            self.sql(f"update newel.{table} set {column} = {column} - interval '{days} days'")  # noqa: S608 — its own words

    async def submit(self, fleet: str, jobs: int, total: int | None = None) -> list[str]:
        await self.engine.fleets.begin(fleet, "k", total or jobs)
        keys = [f"{fleet}/{number}" for number in range(1, jobs + 1)]
        return [await self.engine.submit("k", b"{}", queue=key, key=key) for key in keys]

    async def end(self, count: int) -> None:
        for lease in await self.engine.claim(count, "w"):
            await self.engine.append(lease, [b"{}", b"{}"], expect_seq=0)
            await self.engine.finish(lease, JobOutcome(state="done"))

    async def removals(self) -> set[str]:
        names = await self.engine.retention.claim_removals()
        await self.engine.retention.finish_removals(names)
        return set(names)

    def rows(self) -> dict[str, int]:
        tables = ("jobs", "events", "fleets", "budgets")
        return {each: int(self.sql(f"select count(*) from newel.{each}")) for each in tables}  # noqa: S608


@pytest.fixture
async def fleets(anyio_backend: str, postgres: PostgresServer) -> AsyncGenerator[Fleets]:
    fleets = Fleets(postgres)
    async with open_postgres_engine(fleets.url) as fleets.engine:
        yield fleets


async def test_a_deleted_job_is_gone_whole_and_its_snapshots_are_noted(fleets: Fleets) -> None:
    first, second = await fleets.submit("f", 2)
    await fleets.engine.budgets.set("f", max_cost=1, max_tokens=None)
    await fleets.end(2)
    assert await fleets.engine.retention.delete([first]) == 1
    assert fleets.rows() == {"jobs": 1, "events": 2, "fleets": 1, "budgets": 1}
    assert await fleets.removals() == {first}  # the other job needs the start
    assert await fleets.engine.retention.delete([second, first]) == 1
    assert fleets.rows() == {"jobs": 0, "events": 0, "fleets": 0, "budgets": 0}
    assert await fleets.removals() == {second, "start-f"}
    assert await fleets.engine.fleets.list() == []


async def test_what_has_not_ended_is_not_deleted(fleets: Fleets) -> None:
    jobs = await fleets.submit("f", 3)
    (lease,) = await fleets.engine.claim(1, "w")
    await fleets.engine.cancel(jobs[1], "not needed")
    fleets.age(100)
    assert await fleets.engine.retention.delete(jobs) == 1
    assert await fleets.engine.retention.delete_ended(0) == 0
    assert await fleets.removals() == {jobs[1]}
    await fleets.engine.append(lease, [b"{}"], expect_seq=0)
    assert fleets.rows() == {"jobs": 2, "events": 1, "fleets": 1, "budgets": 0}


async def test_a_fleet_gets_old_as_a_whole(fleets: Fleets) -> None:
    """Otherwise the result of a long fleet would lack its first jobs."""
    await fleets.submit("old", 2)
    alone = await fleets.engine.submit("k", b"{}", queue="alone")
    await fleets.end(3)
    await fleets.submit("mixed", 2)
    await fleets.end(1)
    fleets.age(31)
    await fleets.end(1)
    assert await fleets.engine.retention.count_ended(30 * DAY_S) == 3
    assert await fleets.engine.retention.expire(30) == 3
    assert await fleets.engine.get(alone) is None
    assert [fleet.id for fleet in await fleets.engine.fleets.list()] == ["mixed"]
    assert await fleets.engine.retention.delete_ended(0) == 2


async def test_the_start_stays_while_jobs_are_submitted_that_need_it(fleets: Fleets) -> None:
    (job,) = await fleets.submit("f", 1, total=3)
    await fleets.end(1)
    assert await fleets.engine.retention.delete([job]) == 1
    assert await fleets.removals() == {job}
    await fleets.engine.submit("k", b"{}", queue="f/2", key="f/2")
    fleets.age(2)
    assert await fleets.engine.retention.delete_ended(0) == 0  # the job that has not ended needs it
    assert "start-f" not in await fleets.removals()


async def test_the_start_of_a_fleet_that_was_never_submitted_is_removed_after_a_day(fleets: Fleets) -> None:
    """Its command was killed after it had stored the folder."""
    await fleets.engine.fleets.begin("f", "k", 3)
    await fleets.engine.retention.delete_ended(0)
    assert await fleets.removals() == set()
    fleets.age(1.1)
    await fleets.engine.retention.expire(30)
    assert await fleets.removals() == {"start-f"}


async def test_names_are_noted_until_their_snapshots_are_removed(fleets: Fleets) -> None:
    jobs = await fleets.submit("f", 4)
    await fleets.end(4)
    await fleets.engine.retention.delete(jobs[:2])
    claim = fleets.engine.retention.claim_removals
    # Two workers do not get the same ones; one that dies before it has removed them leaves them to the next.
    assert {*await claim(1), *await claim(9)} == {*jobs[:2]}
    assert await claim() == []
    fleets.age(0.01)
    assert {*await claim()} == {*jobs[:2]}
    # A late worker may store a snapshot once more.
    await fleets.engine.retention.finish_removals(jobs[:2])
    assert await claim() == []
    fleets.age(1.1)
    assert await fleets.removals() == {*jobs[:2]}
    fleets.age(5)
    assert await claim() == []


@pytest.mark.slow  # seconds of waiting
async def test_workers_expire_jobs_at_once_and_do_no_harm(fleets: Fleets) -> None:
    for number in range(12):
        await fleets.submit(f"f{number}", 10)
    await fleets.end(120)
    fleets.age(40)
    counts: list[int] = []

    async def expire() -> None:
        async with open_postgres_engine(fleets.url) as engine:
            counts.append(await engine.retention.expire(30))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(expire)
    assert sum(counts) == 120
    assert fleets.rows() == {"jobs": 0, "events": 0, "fleets": 0, "budgets": 0}
    assert int(fleets.sql("select count(*) from newel.removals")) == 132


async def test_where_jobs_are_is_told_by_the_database(fleets: Fleets) -> None:
    ended, running, queued = await fleets.submit("f", 3)
    await fleets.end(1)
    fleets.age(2)
    identity = WorkerIdentity(name="w1", machine="m1")
    async with open_postgres_engine(fleets.url, worker=identity) as worker:
        await worker.claim(1, "w1")
        places = await fleets.engine.retention.places([ended, running, queued, "unknown"])
        assert [(places[job].machine, places[job].ended) for job in (running, queued)] == [
            ("m1", None),
            ("", None),
        ]
        assert places[ended].ended == pytest.approx(2 * DAY_S, abs=60)
        assert "unknown" not in places


async def test_a_worker_may_delete_only_what_is_older_than_a_day(
    fleets: Fleets, postgres: PostgresServer
) -> None:
    fleets.sql(ROLES)
    for user in ("eve", "rack9"):
        postgres.execute(f"create user {user}")
    postgres.execute("grant newel_control to eve; grant newel_worker to rack9")
    (job,) = await fleets.submit("f", 1)
    await fleets.end(1)
    worker_url = postgres.url(fleets.database, user="rack9")
    async with (
        open_postgres_engine(worker_url, worker=WorkerIdentity(name="w", machine="m")) as worker,
        open_postgres_engine(postgres.url(fleets.database, user="eve")) as control,
    ):
        assert await worker.retention.expire(0) == 0
        assert await worker.retention.expire(-5) == 0
        for call in (worker.retention.delete([job]), worker.retention.delete_ended(0), worker.purge(job)):
            with pytest.raises(EngineError, match="does not let this user do that"):
                await call
        assert len(await worker.retention.places([job])) == 1
        fleets.age(1.5)
        assert await worker.retention.expire(1) == 1
        names = await worker.retention.claim_removals()
        assert set(names) == {job, "start-f"}
        await worker.retention.finish_removals(names)
        for key in ("g/1", "g/2"):
            await control.fleets.begin("g", "k", 2)
            await control.submit("k", b"{}", queue=key, key=key)
        for lease in await worker.claim(2, "w"):
            await worker.finish(lease, JobOutcome(state="done"))
        jobs = await control.fleets.jobs("g")
        assert await control.retention.count_ended(0) == 2
        assert await control.retention.delete([jobs[0].job.id]) == 1
        assert await control.retention.delete_ended(0) == 1
        await control.retention.finish_removals(await control.retention.claim_removals())
        with pytest.raises(EngineError, match="does not let this user do that"):
            await control.retention.expire(1)


async def test_requests_of_dead_workers_do_not_stay(fleets: Fleets) -> None:
    await fleets.engine.budgets.begin("r1", "server", None)
    fleets.sql("update newel.requests set begun = begun - interval '2 days'")
    await fleets.engine.budgets.begin("r2", "server", None)
    fleets.sql("select newel.clean()")
    assert fleets.sql("select id from newel.requests") == "r2"
