"""Connects an agent with its commands in the background."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from newel.agent.errors import SessionError
from newel.session.background_notice import ended_notice

if TYPE_CHECKING:
    from newel.agent.messages import UserMessage
    from newel.app.workspace_factory import WorkspaceFactory
    from newel.session.coding_agent import CodingAgent
    from newel.workspace.background import BackgroundCommands


def attend_background(agent: CodingAgent, commands: BackgroundCommands, workspaces: WorkspaceFactory) -> None:
    """Record what they change, and tell the model of their end."""

    async def notice() -> UserMessage | None:
        # the history cannot be read any more: the conversation goes on without it
        with suppress(SessionError):
            return ended_notice(agent.history(), commands.find)
        return None

    agent.before_prompt.append(notice)
    if workspaces.recording is not None:
        commands.before_report = workspaces.recording.look
