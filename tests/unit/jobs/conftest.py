"""Fixtures: an engine in a folder, in memory, and in a database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from newel.jobs.engine import Engine
from newel.jobs.postgres.engine import open_postgres_engine
from newel.jobs.sqlite import open_engine
from tests.postgres import PostgresServer, open_server

OpenEngine = Callable[[], AbstractAsyncContextManager[Engine]]


@pytest.fixture(scope="session")
def postgres() -> Generator[PostgresServer]:
    with open_server() as server:
        yield server


@pytest.fixture(params=["file", "memory", "postgres"])
async def engine(
    request: pytest.FixtureRequest, anyio_backend: str, tmp_path: Path
) -> AsyncGenerator[Engine]:
    async with _opener(request, tmp_path)() as opened:
        yield opened


@pytest.fixture(params=["file", "postgres"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> OpenEngine:
    """Opens an engine that keeps what it had when it was last open."""
    return _opener(request, tmp_path)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _opener(request: pytest.FixtureRequest, folder: Path) -> OpenEngine:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return partial(open_postgres_engine, server.url(server.create_database()))
    return partial(open_engine, folder / "jobs" if request.param == "file" else None)
