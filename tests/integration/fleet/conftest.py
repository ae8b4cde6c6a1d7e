"""Fixtures of fleets: a database, a store, workers and a model, all real processes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mock_llm_server import running
from tests.fleet import FleetOfProcesses
from tests.postgres import PostgresServer, open_server


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Generator[PostgresServer]:
    with open_server() as server:
        yield server


@pytest.fixture
def make_fleet(tmp_path: Path, postgres: PostgresServer) -> Generator[Callable[..., FleetOfProcesses]]:
    """Makes a fleet whose model follows these scenarios."""
    with ExitStack() as stack:

        def make(*scenarios: dict[str, Any]) -> FleetOfProcesses:
            script = {"scenarios": [one for each in scenarios for one in each["scenarios"]]}
            server = stack.enter_context(running(script, strict=True))
            return stack.enter_context(FleetOfProcesses(tmp_path, postgres, server))

        yield make
