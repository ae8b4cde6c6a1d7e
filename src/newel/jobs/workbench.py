"""The whole workbench behind a front end: the board, and the tool servers of its agents."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, Self

from newel.jobs.board import Board
from newel.jobs.conversation import Crew
from newel.jobs.engine import Engine
from newel.jobs.feed import Feed
from newel.mcp.status import ServerStatus


class ToolServers(Protocol):
    """The MCP servers (``newel.mcp.manager``). Methods raise ``NewelError`` for names that are not there."""

    def statuses(self) -> list[ServerStatus]: ...

    async def restart(self, name: str, /) -> None: ...

    async def set_enabled(self, name: str, enabled: bool, /) -> None: ...

    async def set_tool(self, name: str, tool: str, enabled: bool, /) -> None: ...

    async def set_trusted(self, name: str, trusted: bool, /) -> None: ...


class Workbench(Board):
    """A board whose agents have tool servers, too."""

    servers: ToolServers

    @classmethod
    async def open_with(
        cls, engine: Engine, feed: Feed, crew: Crew, servers: ToolServers, *, folder: str, home: Path
    ) -> Self:
        """Raises ``EngineError``."""
        workbench = await cls.open(engine, feed, crew, folder=folder, home=home)
        workbench.servers = servers
        return workbench

    async def models(self) -> list[str]:
        """The models that the server offers. Raises ``ProviderError``."""
        return await self.crew.models()

    def statuses(self) -> list[ServerStatus]:
        return self.servers.statuses()

    async def set_server(
        self, server: str, *, enabled: bool | None = None, trusted: bool | None = None
    ) -> None:
        """Switch a server on or off, or decide whether its command is trusted; None leaves as it is."""
        if trusted is not None:
            await self.servers.set_trusted(server, trusted)
        if enabled is not None:
            await self.servers.set_enabled(server, enabled)

    async def set_tool(self, server: str, tool: str, *, enabled: bool) -> None:
        await self.servers.set_tool(server, tool, enabled)

    async def restart_server(self, server: str) -> None:
        await self.servers.restart(server)
