"""If these fail, a user sees a job on another machine answer late, sees an answer that no longer exists, or pays for updates that nobody
watches.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import anyio
import pytest

from newel.agent.messages import AssistantMessage, TextContent
from newel.fleet.live import JobUpdate, follow_job
from newel.jobs.engine import JobOutcome, JournalEntry, Lease
from newel.jobs.placement import LiveData, Placement
from newel.jobs.postgres.engine import PostgresEngine, open_postgres_engine
from newel.jobs.postgres.live import MAX_BYTES
from newel.runs.models import LiveSnapshot
from newel.text.json import to_json
from tests.postgres import PostgresServer

pytestmark = pytest.mark.anyio

DONE = JobOutcome(state="done")


def said(text: str) -> LiveSnapshot:
    message = AssistantMessage(id="m", content=[TextContent(text=text)], model="m", timestamp="")
    return LiveSnapshot(message=message)


class Machine:
    """A worker with one job, and what its journal lacks."""

    def __init__(self, engine: PostgresEngine, lease: Lease) -> None:
        self.engine = engine
        self.lease = lease
        self.seq = 0
        self.live = LiveData(seq=0, data=b"")

    def say(self, text: str) -> None:
        self.live = LiveData(seq=self.seq, data=to_json(said(text)))

    async def append(self, data: bytes) -> None:
        self.seq = await self.engine.append(self.lease, [data], expect_seq=self.seq)
        self.live = LiveData(seq=self.seq, data=b"")

    async def run(self) -> None:
        await self.engine.live.write(self.lease, lambda: self.live)


class Fleet:
    def __init__(self, postgres: PostgresServer) -> None:
        self._postgres = postgres
        self._database = postgres.create_database()
        self.url = postgres.url(self._database)

    def stored(self) -> int:
        """The jobs whose live data is in the database."""
        return int(self._postgres.execute("select count(*) from newel.live", self._database))

    def clean(self) -> None:
        """What a worker does once a minute."""
        self._postgres.execute("select newel.clean()", self._database)

    @asynccontextmanager
    async def machine(self, *, lease: float = 30) -> AsyncGenerator[tuple[PostgresEngine, Machine]]:
        """A reader's engine, and a machine that runs a job."""
        async with (
            open_postgres_engine(self.url) as control,
            open_postgres_engine(self.url, lease=lease) as engine,
        ):
            await control.submit("turn", b"{}", queue="q")
            (held,) = await engine.claim(1, "w")
            yield control, Machine(engine, held)


@pytest.fixture
def fleet(postgres: PostgresServer) -> Fleet:
    return Fleet(postgres)


async def next_of(updates: AsyncGenerator[JobUpdate]) -> JobUpdate:
    with anyio.fail_after(8):
        return await anext(updates)


async def test_what_a_model_writes_is_seen_before_its_message_is_complete(fleet: Fleet) -> None:
    async with fleet.machine() as (control, machine), anyio.create_task_group() as tasks:
        tasks.start_soon(machine.run)
        await machine.append(b'{"n":1}')
        machine.say("Hel")
        async with aclosing(follow_job(control, machine.lease.job)) as updates:
            first = await next_of(updates)
            assert isinstance(first, Placement)
            assert first.job.state == "running"
            entry = await next_of(updates)
            assert isinstance(entry, JournalEntry)
            assert (entry.seq, entry.data) == (1, b'{"n":1}')
            assert await next_of(updates) == LiveSnapshot()  # nobody has asked the worker before
            assert await next_of(updates) == said("Hel")
            machine.say("Hello")
            assert await next_of(updates) == said("Hello")
            await machine.append(b'{"n":2}')
            entry = await next_of(updates)
            assert isinstance(entry, JournalEntry)
            assert entry.seq == 2
            machine.say("And")
            assert await next_of(updates) in (LiveSnapshot(), said("And"))
            await machine.engine.finish(machine.lease, DONE)
            last = [update async for update in updates]
        ended = [update for update in last if isinstance(update, Placement)]
        assert [each.job.state for each in ended] == ["done"]
        assert last[-1] == LiveSnapshot()
        tasks.cancel_scope.cancel()


async def test_nothing_is_written_for_a_job_that_nobody_watches(fleet: Fleet) -> None:
    async with fleet.machine() as (control, machine), anyio.create_task_group() as tasks:
        tasks.start_soon(machine.run)
        machine.say("Hello")
        await control.read(machine.lease.job, wait=0.6)  # as a command that prints messages does
        assert fleet.stored() == 0
        updated, version = "", 0
        while version == 0:
            page = await control.live.read(machine.lease.job, updated=updated, wait=5)
            assert page is not None
            updated, version = page.updated, page.version
        assert fleet.stored() == 1
        tasks.cancel_scope.cancel()


@pytest.mark.slow  # a second of a core
async def test_what_a_dead_worker_had_begun_to_say_vanishes(fleet: Fleet) -> None:
    """Another worker asks its model again, which may say something else."""
    async with fleet.machine(lease=1) as (control, machine):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(machine.run)
            machine.say("Hello")
            async with aclosing(follow_job(control, machine.lease.job)) as updates:
                while await next_of(updates) != said("Hello"):
                    pass
                tasks.cancel_scope.cancel()
        async with aclosing(follow_job(control, machine.lease.job)) as updates:
            while await next_of(updates) != said("Hello"):
                pass
            with anyio.fail_after(10):
                (lease,) = await control.claim(1, "next", wait=10)
                while await anext(updates) != LiveSnapshot():
                    pass
            assert lease.attempt == 2
            await control.finish(lease, DONE)
            assert isinstance([each async for each in updates][-1], Placement)
        assert fleet.stored() == 1
        fleet.clean()
        assert fleet.stored() == 0


@pytest.mark.slow  # a second of a core
@pytest.mark.parametrize(
    "live",
    [
        LiveData(seq=2_000_000_000, data=to_json(said("early"))),
        LiveData(seq=0, data=b"no json"),
        LiveData(seq=0, data=b'{"message":3}'),
        LiveData(seq=0, data=b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        LiveData(seq=0, data=b'{"outputs":{"\xff":""}}'),
        LiveData(seq=0, data=os.urandom(MAX_BYTES + 1)),
    ],
    ids=["of a later event", "no JSON", "no snapshot", "too deep", "no UTF-8", "too long"],
)
async def test_a_worker_that_writes_nonsense_costs_a_reader_nothing(fleet: Fleet, live: LiveData) -> None:
    async with fleet.machine() as (control, machine), anyio.create_task_group() as tasks:
        tasks.start_soon(machine.run)
        async with aclosing(follow_job(control, machine.lease.job)) as updates:
            assert isinstance(await next_of(updates), Placement)
            assert await next_of(updates) == LiveSnapshot()
            machine.live = live
            with anyio.move_on_after(2):
                assert await anext(updates) == LiveSnapshot()
        tasks.cancel_scope.cancel()
