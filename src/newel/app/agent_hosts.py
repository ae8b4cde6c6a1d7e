"""The places where the agents of a workbench work."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import anyio
from anyio.abc import TaskStatus

from newel.app.notices import AgentNotices
from newel.app.sandbox import open_confined_host
from newel.concurrency import background_tasks

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from newel.config.settings import Settings
    from newel.permissions.approval import AskApproval
    from newel.workspace.execution_host import ExecutionHost


class AgentHost(NamedTuple):
    """``notices`` reach the agent that works there."""

    host: ExecutionHost
    notices: AgentNotices


class _OpenedHost(NamedTuple):
    place: AgentHost
    scope: anyio.CancelScope
    closed: anyio.Event


class AgentHosts:
    """With a sandbox, each conversation has one of its own, with its own way to the network: a question about a server is asked where the
    command runs, and no command of another conversation can ask in its name. Use ``open_agent_hosts``.
    """

    def __init__(self, settings: Settings, shared: ExecutionHost, group: TaskGroup | None) -> None:
        self._settings = settings
        self._shared = shared
        self._group = group
        self._opened: dict[str, _OpenedHost] = {}

    async def of(self, session: str, ask: AskApproval) -> AgentHost:
        """That of a conversation; ``ask`` is asked about servers that its commands want to reach. Raises as ``open_confined_host`` does."""
        if self._group is None:
            return AgentHost(self._shared, AgentNotices())
        if session not in self._opened:
            self._opened[session] = await self._group.start(self._serve, ask)
        return self._opened[session].place

    async def close(self, session: str) -> None:
        """End everything that the commands of a conversation have left running."""
        if opened := self._opened.pop(session, None):
            opened.scope.cancel()
            await opened.closed.wait()

    async def _serve(self, ask: AskApproval, *, task_status: TaskStatus[_OpenedHost]) -> None:
        notices, closed = AgentNotices(), anyio.Event()
        try:
            with anyio.CancelScope() as scope:
                async with open_confined_host(self._settings, ask, notices) as host:
                    task_status.started(_OpenedHost(AgentHost(host, notices), scope, closed))
                    await anyio.sleep_forever()
        finally:
            closed.set()


@asynccontextmanager
async def open_agent_hosts(
    settings: Settings, shared: ExecutionHost, *, attended: bool
) -> AsyncGenerator[AgentHosts]:
    """``shared`` is the place for all conversations on another host, where there is no sandbox, or nobody who could be asked."""
    if settings.host is not None or settings.sandbox.mode == "off" or not attended:
        yield AgentHosts(settings, shared, None)
        return
    async with background_tasks() as group:
        yield AgentHosts(settings, shared, group)
