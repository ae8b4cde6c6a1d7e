"""The MCP servers of the user and the project, and their tools for an agent."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from newel.config.settings import Settings
from newel.mcp.server_config import ServerConfig, load_servers
from newel.providers.http.urls import is_loopback
from newel.text.sanitize import sanitize

if TYPE_CHECKING:
    from newel.agent.messages import AssistantMessage
    from newel.agent.ports import AgentMode, Model, Provider, Tool
    from newel.mcp.manager import McpManager
    from newel.mcp.types import Elicit, Sample, SampleRequest
    from newel.session.coding_agent import CodingAgent
    from newel.tools.selection import ToolSelection
    from newel.workspace.execution_host import ExecutionHost

QUIET_S = 1.0
"""Of the wait for servers without a message."""

END_GRACE_S = 10.0
"""For the end of a process that has not started in time."""


def tool_servers(
    settings: Settings,
    *,
    on_change: Callable[[], None],
    sample: Sample | None,
    more: Sequence[ServerConfig] = (),
    host: ExecutionHost | None = None,
) -> tuple[McpManager, list[str]]:
    """The servers, not started yet, and messages on problems with their configuration. ``more`` servers come first: their names
    count before those of files. ``host`` may have a sandbox for them.
    """
    from newel.mcp.manager import McpManager
    from newel.mcp.server_connection import ServerContext
    from newel.mcp.trust import Trust
    from newel.workspace.local import LocalHost

    configs, problems = load_servers(home=settings.home, cwd=settings.cwd)
    named = {config.name for config in more}
    configs = [*more, *(config for config in configs if config.name not in named)]
    if settings.agent_mode == "local":
        elsewhere = [config.name for config in configs if config.url and not is_loopback(config.url)]
        configs = [config for config in configs if config.name not in elsewhere]
        problems += [
            f"The MCP server {name} is not used: agent_mode is local, and it is not on this machine."
            for name in elsewhere
        ]
    trust = Trust(settings.home)
    enabled = [config for config in configs if not config.disabled]
    if undecided := [config.name for config in enabled if trust.state(config) == "undecided"]:
        problems.append(
            f"MCP servers of this project need your trust: {', '.join(undecided)}. See `newel mcp list`."
        )
    started = [config.name for config in enabled if trust.is_trusted(config)]
    if started and settings.host is not None:
        problems.append(f"MCP servers run on this machine, not on the host: {', '.join(started)}.")
    context = ServerContext(
        trust=trust,
        root=settings.cwd,
        environ=os.environ,
        sample=sample,
        find_launcher=host.find_server_launcher if isinstance(host, LocalHost) else None,
    )
    return McpManager(configs, context, on_change), problems


class ModelInUse(Protocol):
    @property
    def model(self) -> Model: ...

    @property
    def agent_mode(self) -> AgentMode: ...


def sampler(settings: Settings, provider: Provider, in_use: Callable[[], ModelInUse]) -> Sample | None:
    """Lets servers query the model; None unless calls run without approval, as queries cost the user's money."""
    if settings.approve != "auto":
        return None

    async def sample(request: SampleRequest) -> AssistantMessage:
        import msgspec

        from newel.agent.ports import ModelRequest

        now = in_use()
        question = ModelRequest(
            model=msgspec.structs.replace(now.model, max_output=request.max_tokens),
            system_prompt=request.system_prompt,
            messages=request.messages,
            agent_mode=now.agent_mode,
        )
        return await provider.complete(question, _ignore)

    return sample


async def _ignore(_: object) -> None:
    """Deltas have no subscriber."""


@asynccontextmanager
async def add_server_tools(
    settings: Settings,
    agent: CodingAgent,
    provider: Provider,
    elicit: Elicit | None,
    *,
    wait: bool,
    offered: ToolSelection | None = None,
    more: Sequence[ServerConfig] = (),
    host: ExecutionHost | None = None,
) -> AsyncGenerator[None]:
    """Add the servers' tools to the agent's own as the servers start; ``wait`` for them first. Questions that servers ask during a
    call go to ``elicit``. ``offered`` selects the tools. ``more`` servers are used besides those of the configuration files. Raises
    ``UsageError`` if ``offered`` names others.
    """
    import math

    import anyio

    from newel.agent.events import ErrorEvent
    from newel.concurrency import background_tasks

    own_tools = tuple(agent.state.tools)
    reported: set[str] = set()
    send, notices = anyio.create_memory_object_stream[str](math.inf)
    joined: list[Tool] = []

    def join() -> None:
        served = manager.tools(elicit)
        _replace_tools(agent, joined, served if offered is None else offered.of(served))
        for notice in manager.notices():
            if notice not in reported:
                reported.add(notice)
                send.send_nowait(notice)

    async def emit_notices() -> None:
        async for notice in notices:
            await agent.emit(ErrorEvent(code="mcp_tools_changed", message=notice, level="warning"))

    manager, problems = tool_servers(
        settings,
        on_change=join,
        sample=sampler(settings, provider, lambda: agent.state),
        more=more,
        host=host,
    )
    agent.tool_servers = lambda: [(status.name, status.state) for status in manager.statuses()]
    for problem in problems:
        _print_notice(problem)
    with send, notices:
        async with manager:
            if wait:  # no front end is subscribed to events yet
                await _wait_for(manager)
                while notices.statistics().current_buffer_used:
                    _print_notice(notices.receive_nowait())
            if offered is not None and not _starting(manager):
                offered.check(tool.spec.name for tool in (*own_tools, *manager.tools(elicit)))
            async with background_tasks(emit_notices):
                yield


def _replace_tools(agent: CodingAgent, joined: list[Tool], tools: Sequence[Tool]) -> None:
    """Replace the tools that have ``joined`` an agent. What others have set since, such as the program whose agent it is, stays."""
    kept = [tool for tool in agent.state.tools if all(tool is not each for each in joined)]
    joined[:] = tools
    agent.set_tools([*kept, *joined])


async def _wait_for(manager: McpManager) -> None:
    """Wait until each server has started or failed, within its own limit, with a message if it takes long."""
    await manager.wait_started(QUIET_S)
    if late := _starting(manager):
        most = manager.startup_timeout()
        _print_notice(f"Waiting up to {most:g} s for {late} … (Ctrl+C ends Newel)")
        await manager.wait_started(most + END_GRACE_S)
    if late := _starting(manager):  # one that began anew
        _print_notice(
            f"Continuing without {late}; its tools are added once it has started. See `newel mcp test`."
        )


def _starting(manager: McpManager) -> str:
    """Names the servers that are still starting."""
    names = [status.name for status in manager.statuses() if status.state == "starting"]
    return f"the tool server{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""


def _print_notice(message: str) -> None:
    print(f"newel: {sanitize(message)}", file=sys.stderr, flush=True)  # noqa: T201 — for the user
