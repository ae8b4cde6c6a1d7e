"""Fixtures: managers with real servers."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from newel.mcp.manager import McpManager
from newel.mcp.server_config import ServerConfig
from newel.mcp.server_connection import ServerContext
from newel.mcp.transport_stdio import ShutdownTimeouts
from newel.mcp.trust import Trust
from tests.integration.mcp.rogues import Started

QUICK = ShutdownTimeouts(exit=0.3, term=0.3)
"""For servers that would be waited for to no end: those of some people do not hear that their input has ended."""


@pytest.fixture
def started(tmp_path: Path) -> Started:
    """A manager of these servers, each of which has started or is known to be broken."""

    @asynccontextmanager
    async def start(
        *configs: ServerConfig,
        environ: Mapping[str, str] = os.environ,
        wait: float = 25,
        on_change: Callable[[], None] = lambda: None,
        **given: Any,
    ) -> AsyncGenerator[McpManager]:
        trust = Trust(tmp_path / "newel")
        around: dict[str, Any] = {"trust": trust, "root": tmp_path, "environ": environ, "shutdown": QUICK}
        async with McpManager(configs, ServerContext(**around | given), on_change) as manager:
            await manager.wait_started(wait)
            yield manager

    return start
