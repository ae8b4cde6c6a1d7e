"""Helpers of the tests with real servers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio

from newel.agent.ports import ToolResult
from newel.mcp.manager import McpManager
from newel.mcp.server_config import ServerConfig
from newel.mcp.types import ServerStatus

ROGUE = Path(__file__).parent / "servers" / "rogue.py"

SOON = (0.05, 0.05, 0.05)
"""Pauses before a server that was lost is started again, for who only waits for that."""

Started = Callable[..., AbstractAsyncContextManager[McpManager]]


def rogue(way: str, *, name: str = "rogue", **fields: Any) -> ServerConfig:
    """A server with one of the behaviours of ``servers/rogue.py``."""
    given: dict[str, Any] = {"origin": Path("/etc/mcp_config.json"), "level": "user", **fields}
    return ServerConfig(name=name, command=sys.executable, args=("-IS", str(ROGUE), way), **given)


async def call(
    manager: McpManager, name: str, elicit: Any = None, sample: Any = None, /, **arguments: Any
) -> tuple[ToolResult, str]:
    """A tool's result, and its output until then."""
    shown: list[str] = []

    async def on_output(piece: str) -> None:
        shown.append(piece)

    tool = next(tool for tool in manager.tools(elicit, sample) if tool.spec.name == name)
    result = await (await tool.plan(tool.parse(arguments))).execute(on_output)
    return result, "".join(shown)


def status(manager: McpManager, name: str = "rogue") -> ServerStatus:
    return next(each for each in manager.statuses() if each.name == name)


async def until(wanted: Callable[[], bool]) -> None:
    """Wait for a condition; the test's timeout is the limit."""
    while not wanted():  # noqa: ASYNC110 — what is waited for happens in other processes
        await anyio.sleep(0.02)
