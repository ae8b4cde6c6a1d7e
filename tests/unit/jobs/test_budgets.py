"""If these fail, a fleet spends more than it may, or floods a model server from many machines."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest

from newel.jobs.placement import Spending, WorkerIdentity
from newel.jobs.postgres.engine import open_postgres_engine
from tests.postgres import PostgresServer

pytestmark = pytest.mark.anyio


def worker(name: str) -> WorkerIdentity:
    return WorkerIdentity(name=name, machine=name)


@pytest.mark.slow  # seconds of waiting
async def test_what_requests_have_cost_is_counted_once(postgres: PostgresServer) -> None:
    async with open_postgres_engine(postgres.url(postgres.create_database()), worker=worker("one")) as engine:
        budgets = engine.budgets
        assert await budgets.spending("f") is None
        await budgets.set("f", max_cost=5.0, max_tokens=None)
        await budgets.set("f", max_cost=9.0, max_tokens=9)
        for request in ("a", "b"):
            assert await budgets.begin(request, "server", None)
        for _ in range(2):  # the answer to the first call was lost
            await budgets.end("a", "f", cost=1.5, tokens=100)
        await budgets.end("b", "f", cost=0.25, tokens=20)
        assert await budgets.spending("f") == Spending(max_cost=5.0, max_tokens=None, cost=1.75, tokens=120)


async def test_a_server_gets_a_number_of_requests_from_all_machines(postgres: PostgresServer) -> None:
    url = postgres.url(postgres.create_database())
    async with AsyncExitStack() as stack:
        one, two = [
            (await stack.enter_async_context(open_postgres_engine(url, worker=worker(name)))).budgets
            for name in ("one", "two")
        ]
        assert await one.begin("a", "server", 2)
        assert await one.begin("a", "server", 2)  # the same one
        assert await two.begin("b", "server", 2)
        assert not await one.begin("c", "server", 2)
        assert await one.begin("d", "another server", 2)
        await two.end("b", "f", cost=0.0, tokens=0)
        assert await one.begin("c", "server", 2)


async def test_the_requests_of_a_worker_that_is_gone_keep_no_place(postgres: PostgresServer) -> None:
    url = postgres.url(postgres.create_database())
    async with open_postgres_engine(url, worker=worker("two")) as engine:
        async with open_postgres_engine(url, worker=worker("one")) as gone:
            assert await gone.budgets.begin("a", "server", 1)
            assert not await engine.budgets.begin("b", "server", 1)
        with anyio.fail_after(5):
            while not await engine.budgets.begin("b", "server", 1):  # noqa: ASYNC110 — of a database
                await anyio.sleep(0.05)
