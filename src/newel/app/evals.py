"""Composes a run of the evaluation suite from the settings."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from newel.evals.trial import AgentSetup

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.evals.checks import OpenFolder
    from newel.workspace.port import Workspace


def check_folder_opener(settings: Settings) -> OpenFolder:
    """Opens the folder of a trial for its checks, which run what an agent wrote: in the sandbox of the settings."""

    @asynccontextmanager
    async def open_folder(folder: Path) -> AsyncGenerator[Workspace]:
        from newel.app.agent_place import open_agent_place
        from newel.workspace.process.output import OutputLimits

        there = msgspec.structs.replace(settings, cwd=folder)
        async with open_agent_place(there, attended=False) as place:
            yield place.host.workspace(str(folder), OutputLimits())

    return open_folder


def allow_agents() -> None:
    """Let the agents that this process starts run without questions. Raises ``UsageError`` if an agent with fewer rights has started this
    process.
    """
    from newel.permissions.nested import enter

    enter("auto", attended=False)


def newel_setup(settings: Settings) -> AgentSetup:
    """Newel with the model of the settings. Its server's key goes by the environment, where other users cannot see it."""
    endpoint = settings.endpoint
    flags: list[str] = []
    environ: dict[str, str] = {}
    if endpoint is not None:
        flags += ["--base-url", endpoint.base_url]
        flags += ["--api", endpoint.api] if endpoint.api else []
        if endpoint.api_key:
            environ["LLM_AUTH_TOKEN"] = endpoint.api_key
    options = {
        "--model": settings.model,
        "--agent-mode": settings.agent_mode,
        "--tool-calls": settings.tool_calls,
        "--thinking": settings.thinking,
        "--sandbox": settings.sandbox.mode,
    }
    for name, value in options.items():
        flags += [name, str(value)] if value else []
    return AgentSetup(flags=flags, environ=environ)
