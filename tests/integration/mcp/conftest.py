"""Managers with real servers."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from newel.mcp.config import ServerConfig
from newel.mcp.manager import McpManager
from newel.mcp.trust import Trust
from tests.integration.mcp.rogues import Started


@pytest.fixture
def started(tmp_path: Path) -> Started:
    """A manager of these servers, each of them started or known to be broken."""

    @asynccontextmanager
    async def start(
        *configs: ServerConfig, environ: Mapping[str, str] = os.environ, wait: float = 25, **given: Any
    ) -> AsyncGenerator[McpManager]:
        trust = Trust(tmp_path / "newel")
        async with McpManager(configs, trust=trust, roots=[tmp_path], environ=environ, **given) as manager:
            await manager.wait_started(wait)
            yield manager

    return start
