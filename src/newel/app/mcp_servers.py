"""The MCP servers that the user and the project name, and their tools among those of an agent."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from newel.config.settings import Settings
from newel.mcp.server_config import files, load_servers
from newel.text.sanitize import sanitize

if TYPE_CHECKING:
    from newel.agent.messages import AssistantMessage
    from newel.agent.ports import Model, Provider
    from newel.mcp.elicitation import Elicit, Sample, SampleRequest
    from newel.mcp.manager import McpManager
    from newel.session.coding_agent import CodingAgent

PATIENCE = 5.0
"""Seconds that a run from the command line waits for its servers; the tools of a later one join it."""

QUIET = 1.5
"""Seconds of this wait that go without a word."""


def are_named(settings: Settings) -> bool:
    """Whether any file names servers: without one nothing of all this is loaded."""
    return any(file.exists() for file in files(home=settings.home, cwd=settings.cwd))


def tool_servers(
    settings: Settings, *, on_change: Callable[[], None], sample: Sample | None
) -> tuple[McpManager, list[str]]:
    """The servers, not started yet, and what a person should know of their files."""
    from newel.mcp.manager import McpManager
    from newel.mcp.trust import Trust

    configs, problems = load_servers(home=settings.home, cwd=settings.cwd)
    trust = Trust(settings.home)
    enabled = [each for each in configs if not each.disabled]
    if waiting := [each.name for each in enabled if not trust.is_trusted(each)]:
        problems.append(
            f"MCP servers of this project wait for your trust: {', '.join(waiting)}. See `newel mcp list`."
        )
    started = [each.name for each in enabled if each.name not in waiting]
    if started and settings.host is not None:
        problems.append(f"MCP servers run on this machine, not on the host: {', '.join(started)}.")
    manager = McpManager(
        configs,
        trust=trust,
        roots=[settings.cwd],
        environ=os.environ,
        on_change=on_change,
        sample=sample,
    )
    return manager, problems


def sampler(settings: Settings, provider: Provider, model: Model) -> Sample | None:
    """A server's way to ask the model; None where it may not: it spends the user's money, so it goes unasked only where
    everything else does.
    """
    if settings.approve != "auto":
        return None

    async def sample(request: SampleRequest) -> AssistantMessage:
        import msgspec

        from newel.agent.ports import ModelRequest

        bounded = msgspec.structs.replace(model, max_output=request.max_tokens)
        question = ModelRequest(model=bounded, system_prompt=request.system_prompt, messages=request.messages)
        return await provider.complete(question, _ignore)

    return sample


async def _ignore(_: object) -> None:
    """Nobody watches the pieces."""


@asynccontextmanager
async def joined_tools(
    settings: Settings, agent: CodingAgent, provider: Provider, elicit: Elicit | None, *, wait: bool
) -> AsyncGenerator[None]:
    """The servers' tools join the agent's own, each server's when it is active; ``wait``: before anything else. What
    servers ask in the course of a call goes to ``elicit``.
    """
    import math

    import anyio

    from newel.agent.events import ErrorEvent
    from newel.concurrency import background_tasks

    own = tuple(agent.state.tools)
    told: set[str] = set()
    send, news = anyio.create_memory_object_stream[str](math.inf)

    def join() -> None:
        agent.agent.set_tools([*own, *manager.tools(elicit)])
        for words in manager.notices():
            if words not in told:
                told.add(words)
                send.send_nowait(words)

    async def tell() -> None:
        async for words in news:
            await agent.agent.emit(ErrorEvent(code="mcp_tools_changed", message=words))

    manager, problems = tool_servers(
        settings, on_change=join, sample=sampler(settings, provider, agent.state.model)
    )
    for problem in problems:
        _say(problem)
    with send, news:
        async with manager:
            if wait:  # no front end is subscribed to events yet
                await _wait_for(manager)
                while news.statistics().current_buffer_used:
                    _say(news.receive_nowait())
            async with background_tasks(tell):
                yield


async def _wait_for(manager: McpManager) -> None:
    """Give the servers some time to start, and say so where it takes long."""
    await manager.wait_started(QUIET)
    if late := _starting(manager):
        _say(f"Waiting up to {PATIENCE:g} s for {late} …")
        await manager.wait_started(PATIENCE - QUIET)
    if late := _starting(manager):
        _say(f"Going on without {late}, whose tools join as soon as they are there. See `newel mcp test`.")


def _starting(manager: McpManager) -> str:
    """The servers that are not ready yet, in words."""
    names = [status.name for status in manager.statuses() if status.state == "starting"]
    return f"the tool server{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""


def _say(words: str) -> None:
    print(f"newel: {sanitize(words)}", file=sys.stderr, flush=True)  # noqa: T201 — a person must know
