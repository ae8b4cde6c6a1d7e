"""Notices between an agent and parts of its surroundings that exist before it does."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from newel.agent.events import AgentEnd, ErrorEvent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from newel.agent.events import AgentEvent, Level
    from newel.agent.ports import Emit
    from newel.mcp.types import Reach
    from newel.session.coding_agent import CodingAgent

NOT_SAVED = "answer_not_saved"
"""The code of a notice that an answer could not be kept for the project."""


MAX_REFUSED = 10
"""Servers that are remembered until a result names them."""


async def _reach_nothing(server: str, address: str) -> bool:
    del server, address
    return False


class AgentNotices:
    """Sends ``error`` events to the subscribers of the agent that it attends to, calls ``on_run_end`` when a run of it has ended, and
    remembers the servers that the proxy has refused until a result of a command names them. ``reach`` decides what tool servers in a
    sandbox may reach while they work for the agent.
    """

    def __init__(self) -> None:
        self.reach: Reach = _reach_nothing
        self.on_run_end: Callable[[], None] = lambda: None
        self._refused: deque[str] = deque(maxlen=MAX_REFUSED)
        self._emit: Emit | None = None

    def attend(self, agent: CodingAgent) -> None:
        """Belong to an agent from now on."""
        self._emit = agent.emit
        agent.subscribe(self._on_event)

    async def notify(self, code: str, level: Level, message: str) -> None:
        """Without an agent there is nobody to tell."""
        if self._emit is not None:
            await self._emit(ErrorEvent(code=code, message=message, level=level))

    def note_refused(self, server: str) -> None:
        """Commands could not reach a server."""
        self._refused.append(server)

    def take_refused(self) -> list[str]:
        """The latest of these servers since the last call."""
        refused = list(self._refused)
        self._refused.clear()
        return refused

    def of(self, code: str, level: Level = "warning") -> Callable[[str], Awaitable[None]]:
        """Sends messages with this code at this level."""
        return partial(self.notify, code, level)

    def _on_event(self, event: AgentEvent) -> None:
        if isinstance(event, AgentEnd):
            self.on_run_end()
