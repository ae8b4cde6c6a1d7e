"""All MCP servers of this process: started and stopped concurrently; nothing waits for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Self

import anyio

from newel.agent.errors import ConfigError
from newel.concurrency import background_tasks
from newel.mcp.server_config import ServerConfig
from newel.mcp.server_connection import McpTool, Server, ServerContext
from newel.mcp.types import Caller, Elicit, Reach, Sample, ServerStatus


class McpManager(anyio.AsyncContextManagerMixin):
    """The servers as a context manager: entering starts them and returns at once; leaving stops them all in bounded
    time. ``on_change`` is called when a status changes, and must not raise.
    """

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        context: ServerContext,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_change = on_change
        self._changed = anyio.Event()
        self._trust = context.trust
        self._servers = {config.name: Server(config, context, self._notify) for config in configs}

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with background_tasks(*(server.run for server in self._servers.values())):
            yield self

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
        self._on_change()

    # -- servers and tools ------------------------------------------------------------------------------

    @property
    def configs(self) -> list[ServerConfig]:
        return [server.config for server in self._servers.values()]

    def statuses(self) -> list[ServerStatus]:
        return [server.status() for server in self._servers.values()]

    def tools(
        self, elicit: Elicit | None = None, sample: Sample | None = None, reach: Reach | None = None
    ) -> list[McpTool]:
        """The tools of all active servers that are enabled. Questions of a server during a call go to ``elicit``;
        without it, they are declined. If servers may ask the model, ``sample`` asks that of the agent; without it,
        the one in the context of the servers. ``reach`` decides what servers in a sandbox may reach during a call.
        """
        caller = Caller(elicit, sample, reach)
        offered: dict[str, McpTool] = {}
        for server in self._servers.values():
            if server.state == "active":
                for info in server.tools:
                    if info.name not in server.tools_off:
                        tool = McpTool(server, info, caller)
                        offered.setdefault(tool.spec.name, tool)
        return list(offered.values())

    def notices(self) -> list[str]:
        """Notices for the user: servers that do not work, and tools that are withheld."""
        concerned = [
            server
            for server in self._servers.values()
            if server.state == "broken" or (server.state == "active" and server.withheld)
        ]
        return [f"MCP server '{server.config.name}': {server.reason}" for server in concerned]

    def startup_timeout(self) -> float:
        """Seconds after which none of the servers that are starting is awaited any more."""
        starting = [each for each in self._servers.values() if each.state == "starting"]
        return max((each.config.startup_timeout for each in starting), default=0.0)

    async def wait_started(self, seconds: float) -> None:
        """Wait until every server is active or has failed, for at most this many seconds."""
        with anyio.move_on_after(seconds):
            while any(server.state == "starting" for server in self._servers.values()):
                await self._changed.wait()

    # -- the user's decisions ------------------------------------------------------------------------
    # All raise ``ConfigError``: for an unknown name, and if the decision cannot be saved.

    async def restart(self, name: str) -> None:
        self._server(name).restart()

    async def set_enabled(self, name: str, enabled: bool) -> None:
        server = self._server(name)
        await anyio.to_thread.run_sync(self._trust.set_enabled, server.config, enabled)
        server.restart()

    async def set_trusted(self, name: str, trusted: bool) -> None:
        server = self._server(name)
        await anyio.to_thread.run_sync(self._trust.decide, server.config, trusted or None)
        server.restart()

    async def set_tool(self, name: str, tool: str, enabled: bool) -> None:
        server = self._server(name)
        await anyio.to_thread.run_sync(self._trust.set_tool, server.config, tool, enabled)
        server.tools_off = self._trust.tools_off(server.config)
        self._notify()

    def _server(self, name: str) -> Server:
        if name not in self._servers:
            names = ", ".join(self._servers) or "none"
            raise ConfigError(f"There is no MCP server named '{name}'. The servers are: {names}.")
        return self._servers[name]
