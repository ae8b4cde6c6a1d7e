"""Fixtures: engines in a folder, and in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from newel.jobs.sqlite import SqliteEngine, open_engine


@pytest.fixture(params=["file", "memory"])
async def engine(
    request: pytest.FixtureRequest, anyio_backend: str, tmp_path: Path
) -> AsyncGenerator[SqliteEngine]:
    async with open_engine(tmp_path / "jobs" if request.param == "file" else None) as opened:
        yield opened


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
