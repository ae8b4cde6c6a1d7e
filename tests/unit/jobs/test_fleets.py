"""If these fail, a user does not find a fleet or a job, sees wrong states, or waits for lists that read all that was ever run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from importlib.resources import files

import pytest
from absurdctl import BUNDLED_SCHEMA_SQL  # pyright: ignore[reportMissingTypeStubs]  # it has no types

from newel.app.fleet import NoSuchFleetJob, find_fleet_or_job, find_jobs
from newel.fleet.job import FLEET_CONTRACT
from newel.jobs.engine import JobOutcome
from newel.jobs.placement import Placement
from newel.jobs.postgres.engine import PostgresEngine, open_postgres_engine
from newel.jobs.postgres.schema import MIGRATIONS
from tests.postgres import PostgresServer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine(anyio_backend: str, postgres: PostgresServer) -> AsyncGenerator[PostgresEngine]:
    async with open_postgres_engine(postgres.url(postgres.create_database())) as opened:
        yield opened


async def submit(engine: PostgresEngine, key: str, *, kind: str = FLEET_CONTRACT) -> str:
    return await engine.submit(kind, key.encode(), queue=key, key=key)


async def end(engine: PostgresEngine, result: str, *, state: str = "done") -> str:
    (lease,) = await engine.claim(1, "w")
    await engine.finish(lease, JobOutcome(state="failed" if state == "failed" else "done", result=result))
    return lease.job


async def test_a_list_of_fleets_counts_jobs_by_what_they_came_to(engine: PostgresEngine) -> None:
    await engine.fleets.begin("aaaa", FLEET_CONTRACT, 5)
    for number in range(1, 5):
        await submit(engine, f"aaaa/{number}")
    await end(engine, "completed")
    await end(engine, "stopped")
    await end(engine, "failed", state="failed")
    await submit(engine, "bbbb/1")
    await submit(engine, "cccc/1", kind="trial")
    await engine.submit("turn", b"{}", queue="of no fleet")
    newest, oldest = await engine.fleets.list(kind=FLEET_CONTRACT)
    assert (newest.id, newest.states, newest.total) == ("bbbb", {"queued": 1}, None)
    assert (oldest.id, oldest.total, oldest.params) == ("aaaa", 5, b"aaaa/1")
    assert oldest.states == {"completed": 1, "stopped": 1, "failed": 1, "queued": 1}
    assert oldest.submitted < newest.submitted
    assert [each.id for each in await engine.fleets.list(limit=2)] == ["cccc", "bbbb"]
    assert await engine.fleets.count() == 3
    assert await engine.fleets.count(kind=FLEET_CONTRACT) == 2


async def test_the_jobs_of_a_fleet_have_the_state_of_their_contract(engine: PostgresEngine) -> None:
    jobs = [await submit(engine, f"aaaa/{number}") for number in range(1, 4)]
    await submit(engine, "aaaab/1")
    await end(engine, "completed")
    await engine.cancel(jobs[1], "not needed")
    found = await engine.fleets.jobs("aaaa")
    assert [(each.job.id, each.state, each.fleet) for each in found] == [
        (jobs[0], "completed", "aaaa"),
        (jobs[1], "cancelled", "aaaa"),
        (jobs[2], "queued", "aaaa"),
    ]
    assert [each.job.id for each in await engine.fleets.jobs("aaaa", limit=2)] == jobs[1:]
    (completed,) = await engine.fleets.jobs("aaaa", states=["completed"])
    assert completed.job.id == jobs[0]
    assert await engine.fleets.count_jobs("aaaa", states=["completed", "cancelled"]) == 2
    assert await engine.fleets.count_jobs() == 4


async def test_a_job_that_was_cancelled_while_it_ran_has_no_result(engine: PostgresEngine) -> None:
    job = await submit(engine, "aaaa/1")
    (lease,) = await engine.claim(1, "w")
    await engine.cancel(job, "not needed")
    await engine.finish(lease, JobOutcome(state="done", result="completed"))
    assert [each.state for each in await engine.fleets.jobs("aaaa")] == ["cancelled"]


async def test_a_fleet_and_a_job_are_found_by_the_beginning_of_their_id(engine: PostgresEngine) -> None:
    first, second = await submit(engine, "zzzz1111/1"), await submit(engine, "zzzz1111/2")
    other = await submit(engine, "zzzz2222/1")
    assert [each.job.id for each in await find_jobs(engine, "zzzz1")] == [first, second]
    found = await find_fleet_or_job(engine, other)
    assert isinstance(found, Placement)
    assert found.job.id == other
    assert [each.job.id for each in await find_jobs(engine, first[:12])] == [first]
    with pytest.raises(NoSuchFleetJob, match="Several have an id that begins with 'zzzz'"):
        await find_jobs(engine, "zzzz")
    # The id of a fleet is complete: that another one begins so does not matter.
    await submit(engine, "zzzz22223/1")
    assert [each.job.id for each in await find_jobs(engine, "zzzz2222")] == [other]


@pytest.mark.parametrize("name", ["", "%", "zz%", "zzzz111_", "zzzz1111/1", "\0", "\udc80", "*", "ä" * 9])
async def test_what_is_no_id_matches_nothing(engine: PostgresEngine, name: str) -> None:
    """Otherwise `newel fleet cancel %` would end all jobs."""
    await submit(engine, "zzzz1111/1")
    with pytest.raises(NoSuchFleetJob, match="No fleet and no job has"):
        await find_jobs(engine, name)


async def test_prefixes_are_literal(engine: PostgresEngine) -> None:
    job = await submit(engine, "a_b%c/1")
    assert [each.id for each in await engine.fleets.list(prefix="a_b%")] == ["a_b%c"]
    assert await engine.fleets.list(prefix="a%") == []
    assert await engine.fleets.list(prefix="a_b_") == []
    assert await engine.fleets.find_jobs("%") == []
    assert await engine.fleets.find_jobs(f"{job[:4]}%") == []
    assert await engine.fleets.find_jobs(job[:4], kind="other") == []


async def test_a_database_of_the_first_version_keeps_its_fleets(postgres: PostgresServer) -> None:
    database = postgres.create_database(empty=True)
    scripts = [files("newel.jobs.postgres").joinpath(name).read_text() for name in MIGRATIONS[0]]
    version = "create table newel.version as select 1 as version, '' as absurd"
    for sql in (BUNDLED_SCHEMA_SQL, "create schema newel", version, *scripts):
        postgres.execute(sql, database)
    submitted = "select newel.submit('j1', 'aaaa/1', 'k', 'q', '{}', '\\x7b7d')"
    assert postgres.execute(submitted, database) == "j1"
    async with open_postgres_engine(postgres.url(database)) as engine:
        (fleet,) = await engine.fleets.list()
        assert (fleet.id, fleet.states) == ("aaaa", {"queued": 1})
        assert await end(engine, "completed") == "j1"
        assert (await engine.fleets.list())[0].states == {"completed": 1}
