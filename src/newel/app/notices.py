"""Notices to the user of an agent, from parts that exist before the agent does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from newel.agent.events import ErrorEvent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from newel.agent.ports import Emit


class AgentNotices:
    """Sends ``error`` events to an agent's subscribers, once there is an agent, which ``emit`` belongs to."""

    emit: Emit | None = None

    async def notify(self, code: str, message: str) -> None:
        if self.emit is not None:
            await self.emit(ErrorEvent(code=code, message=message))

    def of(self, code: str) -> Callable[[str], Awaitable[None]]:
        """Sends messages with this code."""
        return partial(self.notify, code)


NOT_SAVED = "answer_not_saved"
"""The code of a notice that an answer could not be kept for the project."""
