"""The whole workbench behind a front end: the board, the tool servers of its agents, and the desk where changes are
reviewed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

import anyio

from newel.agent.errors import ConnectionFailed, NewelError
from newel.agent.ports import Model
from newel.jobs.engine import Engine
from newel.mcp.server_status import ServerStatus
from newel.runs.chat_session import AgentFactory
from newel.runs.event_hub import EventHub
from newel.runs.host_status import HostMonitor, HostState
from newel.runs.models import ModelStatus
from newel.runs.run_events import Notice
from newel.workbench.board import TabService

if TYPE_CHECKING:
    from newel.review_jobs.service import ReviewService

PROBE_TIME = 5.0
PROBE_EVERY = 10.0
"""Seconds for the answer to a probe of the model's server, and between two of them while it is silent."""

OpenDesk = Callable[[], Awaitable["ReviewService"]]


class ToolServers(Protocol):
    """The MCP servers (``newel.mcp.manager``). Methods raise ``NewelError`` for names that are not there."""

    def statuses(self) -> list[ServerStatus]: ...

    async def restart(self, name: str, /) -> None: ...

    async def set_enabled(self, name: str, enabled: bool, /) -> None: ...

    async def set_tool(self, name: str, tool: str, enabled: bool, /) -> None: ...

    async def set_trusted(self, name: str, trusted: bool, /) -> None: ...


class Workbench(TabService):
    """A board whose agents have tool servers, too, and which may have a review desk."""

    servers: ToolServers
    open_desk: OpenDesk | None
    """Is called as soon as the workbench runs."""
    line: HostMonitor | None
    """The way to the host that is worked on; None on this machine."""
    _desk: ReviewService
    _silence = ""
    """Why the model's server does not answer, as it was found last."""

    @classmethod
    async def open_with(
        cls,
        engine: Engine,
        feed: EventHub,
        crew: AgentFactory,
        servers: ToolServers,
        *,
        folder: str,
        home: Path,
        open_desk: OpenDesk | None = None,
        line: HostMonitor | None = None,
    ) -> Self:
        """Raises ``EngineError``."""
        workbench = await cls.open(engine, feed, crew, folder=folder, home=home)
        workbench.servers = servers
        workbench.open_desk = open_desk
        workbench.line = line
        return workbench

    async def run(self, *, slots: int = 300) -> None:
        """As ``TabService.run``. Raises what opening the desk does."""
        if self.open_desk is None:
            await super().run(slots=slots)
            return
        self._desk = await self.open_desk()
        self.handlers |= self._desk.handlers
        self._is_desk_open.set()
        failures: list[NewelError] = []  # so that they leave this as what they are, and not as a group
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._desk.watch, self.tell_reviewed)
            tasks.start_soon(self._watch_model)
            if self.line is not None:
                tasks.start_soon(self.line.keep, partial(self.tell, "host"), lambda: bool(self._watchers))
            try:
                await super().run(slots=slots)
            except NewelError as error:
                failures.append(error)
            tasks.cancel_scope.cancel()
        for failure in failures:
            raise failure

    @cached_property
    def _is_desk_open(self) -> anyio.Event:
        return anyio.Event()

    @asynccontextmanager
    async def desk(self) -> AsyncGenerator[ReviewService]:
        """The review desk for a person's request, as soon as it is open. Raises ``HostUnreachable`` where that request would
        have to wait for the host.
        """
        await self._is_desk_open.wait()
        with self.line.patience() if self.line is not None else nullcontext():
            yield self._desk

    # -- the host -----------------------------------------------------------------------------------

    @property
    def host(self) -> HostState | None:
        """The host that is worked on, and the way there; None on this machine."""
        return self.line.state if self.line is not None else None

    async def note(self, words: str) -> None:
        """Tell in the transcript of each run under way what concerns them all."""
        for each in list(self._open.values()):
            with suppress(NewelError):  # the run learns of that by itself
                await each.conversation.record(Notice(level="warning", message=words))

    # -- the model ------------------------------------------------------------------------------------

    @property
    def model(self) -> ModelStatus:
        return ModelStatus(
            name=self.crew.model, where=self.crew.where, problem=self.crew.problem or self._silence
        )

    async def use_server(self, base_url: str, api_key: str | None, model: str | None) -> list[str]:
        """See ``AgentFactory.use_server``. What is under way goes on with the model that it began with."""
        names = await self.crew.use_server(base_url, api_key, model)
        if not names:
            self._silence = ""
            for each in self._open.values():
                if each.conversation.working is None:
                    each.conversation.forget()
            await self._is_desk_open.wait()
            self._desk.use_model(Model(self.crew.model))
            self.tell("model")
        return names

    async def _watch_model(self) -> None:
        """Learn at the start whether the model's server answers, and if it does not, when it does again."""
        while not self.crew.problem:
            before, self._silence = self._silence, await self._probe()
            if self._silence != before:
                self.tell("model")
            if not self._silence:
                return
            await anyio.sleep(PROBE_EVERY)

    async def _probe(self) -> str:
        """Why nothing answers where the model should be. A server that does not tell its models is one that answers."""
        try:
            with anyio.fail_after(PROBE_TIME):
                await self.crew.models()
        except ConnectionFailed as error:
            return str(error)
        except TimeoutError:
            return f"The model's server has not answered within {PROBE_TIME:.0f} seconds."
        except NewelError:
            pass
        return ""

    # -- models and tool servers --------------------------------------------------------------------

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
