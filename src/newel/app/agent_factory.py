"""The parts of an agent: settings → ground, model, tools, session."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from newel.config.settings import Flags, Settings

if TYPE_CHECKING:
    from newel.agent.ports import Emit, Policy, Tool
    from newel.app.model_resolver import ResolvedModel
    from newel.app.workspace_factory import WorkspaceFactory
    from newel.context.compaction import Compactor
    from newel.context.instructions import Instructions
    from newel.context.prompt_templates import Template
    from newel.mcp.elicitation import Elicit
    from newel.permissions.approval import Ask
    from newel.permissions.secret_paths import SecretPaths
    from newel.review.tracking.recording_workspace import RecorderRegistry
    from newel.session.coding_agent import CodingAgent
    from newel.session.manager import SessionManager
    from newel.workspace.execution_host import ExecutionHost
    from newel.workspace.port import Workspace


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for."""

    flags: Flags
    cwd: Path
    prompts: list[str] = []
    quiet: bool = False
    """Whether nothing but the answers is shown."""
    answers_to: Path | None = None
    """A file that the answers are written to as well."""
    continue_: bool = False
    session: str | None = None
    ephemeral: bool = False
    system_prompt: str | None = None
    simple: bool = False
    echo: bool = False
    """Whether a plain screen repeats the prompts, for a reader who did not type them."""


def open_sessions(
    settings: Settings, project: str, *, ephemeral: bool
) -> Callable[[str | None], SessionManager]:
    """Opens a session by its id, or begins one."""
    from newel.session.manager import SessionManager

    def open_session(session: str | None) -> SessionManager:
        return SessionManager(
            directory=settings.home / "sessions",
            cwd=project,
            session=session,
            ephemeral=ephemeral and session is None,
        )

    return open_session


@asynccontextmanager
async def opened(
    settings: Settings,
    options: AgentOptions,
    ask: Ask | None,
    elicit: Elicit | None = None,
    *,
    wait_for_tools: bool = True,
) -> AsyncGenerator[CodingAgent]:
    """A coding agent from settings, and its connections and files closed afterwards. MCP servers are waited for, or
    their tools come when they come; their questions go to ``elicit``.

    Raises ``ConfigError``, ``SessionError`` and ``ProviderError``.
    """
    from newel.agent.events import ErrorEvent
    from newel.app import mcp_servers
    from newel.app.hosts import open_host
    from newel.app.model_resolver import open_model
    from newel.permissions.nested import enter
    from newel.review.tracking.recording_workspace import RecorderRegistry
    from newel.session.manager import SessionManager

    enter(settings.approve, attended=ask is not None)
    recorders = RecorderRegistry(None if options.ephemeral else settings.home, noted=settings.home)
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(open_host(settings.cwd, settings.host))
        stack.callback(recorders.close)
        model = await stack.enter_async_context(open_model(settings, ground))
        place = AgentContext(
            ground=ground,
            folder=ground.name,
            session=SessionManager(
                directory=settings.home / "sessions",
                cwd=ground.name,
                continue_=options.continue_,
                session=options.session,
                ephemeral=options.ephemeral,
            ),
            open_session=open_sessions(settings, ground.name, ephemeral=options.ephemeral),
            ask=ask,
            recorders=recorders,
        )
        agent = await build_agent(settings, model, place, manner=options.system_prompt)
        stack.callback(agent.session.close)

        async def tell(words: str) -> None:
            await agent.agent.emit(ErrorEvent(code="connection", message=words))

        await stack.enter_async_context(ground.telling(tell))
        if mcp_servers.are_named(settings):
            tools = mcp_servers.joined_tools(settings, agent, model.provider, elicit, wait=wait_for_tools)
            await stack.enter_async_context(tools)
        yield agent


class AgentContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent works and what it may: its folder on a ground, the session that keeps its conversation, how it finds
    another one, who is asked, who hears of each event before anybody else, and what records its changes of files.
    """

    ground: ExecutionHost
    folder: str
    session: SessionManager
    open_session: Callable[[str | None], SessionManager]
    ask: Ask | None = None
    journal: Emit | None = None
    recorders: RecorderRegistry | None = None


async def build_agent(
    settings: Settings, in_use: ResolvedModel, place: AgentContext, *, manner: str | None = None
) -> CodingAgent:
    """Put the parts together. ``manner`` stands in for what Newel tells the model about its manner."""
    from newel.agent.agent import ProviderTransport
    from newel.agent.ports import RunConfig
    from newel.agent.transform import Transformer
    from newel.app.workspace_factory import guarded, open_workspaces, secret_paths_of
    from newel.context.attachments import Attachable
    from newel.context.instructions import describe
    from newel.context.shortening import Shortener
    from newel.session.coding_agent import CodingAgent
    from newel.tools import coding_tools

    model = in_use.model
    open_folder = partial(place.ground.workspace, place.folder)
    places = await open_workspaces(settings, model, place.recorders, open_folder)
    judge = secret_paths_of(settings, place.ground, places)
    tools = coding_tools(
        guarded(places.works_in, judge), timeout=settings.bash_timeout, room=settings.max_result * 9 // 10
    )
    instructions, templates = await _what_is_said(settings, places.workspace)
    compactor = _compactor(in_use)
    run_config = RunConfig(
        model=model,
        transform=Transformer(),
        system_prompt=_system_prompt(manner, tools, instructions, places, place.ground),
        tools=tools,
        thinking=settings.thinking,
        policy=_policy(settings, place, judge, tools if places.isolated else []),
        limits=settings.limits,
        compact=compactor,
        check_cost=in_use.check_cost,
        shorten=Shortener(place.ground.keep, settings.max_result),
    )
    agent = CodingAgent(
        transport=ProviderTransport(in_use.provider),
        config=run_config,
        workspace=places.workspace,
        works_in=places.works_in,
        attachable=Attachable(guarded(places.workspace, judge), judge.why_not_attached),
        session=place.session,
        open_session=place.open_session,
        journal=place.journal,
        list_models=in_use.server.models,
        describe_model=in_use.describe,
        where=in_use.where,
        templates=templates,
        compactor=compactor,
        approve=settings.approve,
        instructions=describe(instructions),
    )
    places.attend(agent)
    agent.secrets = lambda: _secrets(settings)
    return agent


def _compactor(in_use: ResolvedModel) -> Compactor:
    from newel.context.compaction import Compactor
    from newel.providers.model_server import find_window

    window = partial(find_window, in_use.server)
    compactor = Compactor(in_use.provider, in_use.small, context_window=None, find_window=window)
    compactor.follow(in_use.model)
    return compactor


def _secrets(settings: Settings) -> list[str]:
    from newel.app.secrets import configured_secrets

    found = configured_secrets(settings.home, settings.cwd, os.environ)
    endpoint = settings.endpoint
    return [*found, endpoint.api_key] if endpoint and endpoint.api_key else found


async def _what_is_said(
    settings: Settings, project: Workspace
) -> tuple[list[Instructions], dict[str, Template]]:
    """The instructions and templates of the user, who is here, and of the project, which may be elsewhere."""
    from newel.context.file_reader import WorkspaceFolder
    from newel.context.instructions import find_instructions
    from newel.workspace.local import LocalWorkspace
    from newel.workspace.snapshots.index import load

    home = LocalWorkspace("/", environ={})  # Newel's own folder may not be there yet
    prompts = [
        WorkspaceFolder(home, f"{settings.home}/prompts"),
        WorkspaceFolder(project, f"{project.root}/.newel/prompts"),
    ]
    return await find_instructions(project, home=WorkspaceFolder(home, str(settings.home))), await load(
        prompts
    )


def _policy(settings: Settings, place: AgentContext, judge: SecretPaths, reviewed: list[Tool]) -> Policy:
    from newel.permissions.approval import approval_policy

    names = [tool.spec.name for tool in reviewed]
    return approval_policy(settings.approve, ask=place.ask, folder=place.folder, reviewed=names, places=judge)


def _system_prompt(
    manner: str | None,
    tools: list[Any],
    instructions: list[Any],
    places: WorkspaceFactory,
    ground: ExecutionHost,
) -> str:
    import time

    from newel.context.system_prompt import system_prompt

    return system_prompt(
        cwd=places.works_in.root,
        copy_of=places.workspace.root if places.isolated else None,
        tools=[tool.spec for tool in tools],
        instructions=instructions,
        os_name=ground.system,
        shell=ground.shell,
        date=time.strftime("%Y-%m-%d"),
        manner=manner,
    )
