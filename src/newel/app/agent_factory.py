"""The parts of an agent: settings → host, model, tools, session."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from newel.app.agent_context import AgentContext, SharedParts
from newel.config.settings import Flags, Settings

if TYPE_CHECKING:
    from newel.agent.agent import AgentTransport
    from newel.agent.ports import Tool
    from newel.app.hooks import AgentHooks
    from newel.app.known_context import KnownContext
    from newel.app.model_resolver import ResolvedModel
    from newel.app.workspace_factory import OpenFolder, WorkspaceFactory
    from newel.context.attachments import AttachableFiles
    from newel.context.compaction import Compactor
    from newel.extensions.loader import LoadedExtensions
    from newel.hooks.hook import Hook
    from newel.mcp.server_config import ServerConfig
    from newel.mcp.types import Elicit
    from newel.permissions.approval import Approval, ApprovalRequest, AskApproval
    from newel.permissions.rule_book import RuleBook
    from newel.permissions.rules import RuleSet
    from newel.permissions.secret_paths import SecretPaths
    from newel.session.coding_agent import AgentInfo, CodingAgent
    from newel.session.manager import SessionManager
    from newel.tools.selection import ToolSelection
    from newel.workspace.background import BackgroundCommands
    from newel.workspace.execution_host import ExecutionHost
    from newel.workspace.port import Workspace
    from newel.workspace.sandbox.policy import SandboxMode


OutputFormat = Literal["text", "json", "stream-json"]
InputFormat = Literal["text", "stream-json"]


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    flags: Flags
    cwd: Path
    prompts: list[str] = []
    stays: bool = False
    """Whether the prompts begin a conversation where there is a terminal for one, instead of being all."""
    quiet: bool = False
    """Whether only the answers are shown."""
    answers_to: Path | None = None
    """A file to which the answers are also written."""
    output_format: OutputFormat | None = None
    """None is ``text``, unless the settings name another renderer."""
    input_format: InputFormat = "text"
    partial_messages: bool = False
    """Whether stream-json also has the pieces of messages."""
    asks_program: bool = False
    """Whether the program that sends stream-json answers questions about calls."""
    schema: Path | None = None
    """A JSON Schema that the answers have to fit."""
    tools: Sequence[str] | None = None
    """The names and patterns of the tools that are offered; None for all."""
    worktree: str | None = None
    """The name of a new git worktree to work in; None works in ``cwd``, an empty one has a default."""
    continue_: bool = False
    session: str | None = None
    ephemeral: bool = False
    system_prompt: str | None = None
    simple: bool = False
    echo: bool = False
    """Whether a plain screen repeats the prompts, for readers who did not type them."""


class AgentParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a front end adds to an agent: ``host`` replaces that of the folder, whose commands have this sandbox, ``session_id`` is the id
    of a session that is opened or else created, ``tools`` and ``mcp_servers`` are added to those of Newel and the user.
    """

    host: Callable[[ExecutionHost, SandboxMode], ExecutionHost] | None = None
    session_id: str | None = None
    tools: Sequence[Tool] = ()
    mcp_servers: Sequence[ServerConfig] = ()


NO_PARTS: Final = AgentParts()


def open_sessions(
    settings: Settings, project: str, *, ephemeral: bool
) -> Callable[[str | None], SessionManager]:
    """Opens a session by its id, or a new one."""
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
async def open_agent(
    settings: Settings,
    options: AgentOptions,
    ask: AskApproval | None,
    elicit: Elicit | None = None,
    *,
    wait_for_tools: bool = True,
    parts: AgentParts = NO_PARTS,
) -> AsyncGenerator[CodingAgent]:
    """A coding agent from settings; its connections and files are closed afterwards. It waits for its MCP servers, or adds
    their tools as they connect; their questions go to ``elicit``. Raises ``ConfigError``, ``SessionError`` and ``ProviderError``.
    """
    from newel.app.agent_models import open_models
    from newel.app.agent_place import open_agent_place
    from newel.app.notices import AgentNotices
    from newel.app.workspace_factory import open_recorders
    from newel.permissions.nested import enter

    offered = _selection(options.tools, settings)
    async with AsyncExitStack() as stack:
        ask = _in_turn(ask)
        opened = open_agent_place(settings, ask, notices := AgentNotices(), attended=ask is not None)
        place = await stack.enter_async_context(opened)
        settings = place.settings
        enter(settings.approve, attended=ask is not None)
        recorders = stack.enter_context(closing(open_recorders(settings, ephemeral=options.ephemeral)))
        host = parts.host(place.host, settings.sandbox.mode or "read-only") if parts.host else place.host
        background = await stack.enter_async_context(
            _open_background(settings, options, parts, offered, attended=ask is not None)
        )
        models = await stack.enter_async_context(open_models(settings, host))
        model = await models.find(settings.agent_mode)
        context = AgentContext(
            host=host,
            folder=host.name,
            session=_first_session(settings, options, host.name, parts.session_id),
            open_session=open_sessions(settings, host.name, ephemeral=options.ephemeral),
            find_model=models.find,
            ask=ask and _noting_calls(ask, lambda: agent),
            notices=notices,
            recorders=recorders,
            offered=offered,
            more_tools=parts.tools,
            background=background,
        )
        agent = await build_agent(settings, model, context, manner=options.system_prompt)
        stack.push_async_callback(agent.close)
        await stack.enter_async_context(_connection_notices(host, agent))
        served = _server_tools(
            settings, agent, model, elicit, parts, wait=wait_for_tools, offered=offered, host=place.host
        )
        await stack.enter_async_context(served)
        stack.push_async_callback(agent.end_run)  # what it works with is there until it has ended
        yield agent


def _in_turn(ask: AskApproval | None) -> AskApproval | None:
    if ask is None:
        return None
    from newel.app.network_questions import in_turn

    return in_turn(ask)


def _noting_calls(ask: AskApproval, agent: Callable[[], CodingAgent]) -> AskApproval:
    """Asks the user, after the session has noted which calls have not started."""

    async def note_and_ask(request: ApprovalRequest) -> Approval:
        agent().keep_not_started()
        return await ask(request)

    return note_and_ask


def _open_background(
    settings: Settings,
    options: AgentOptions,
    parts: AgentParts,
    offered: ToolSelection | None,
    *,
    attended: bool,
) -> AbstractAsyncContextManager[BackgroundCommands | None]:
    """None where commands cannot go to the background: an editor's run in its own terminals, and under review the folder that they work in
    is renewed for each prompt. None, too, for a new session in which neither a user nor the model could send one there.
    """
    from newel.app.extra_tools import offered_extras

    cannot = parts.host is not None or settings.approve == "review"
    is_possible = attended or options.continue_ or options.session is not None
    if cannot or not (is_possible or offered_extras(settings, offered)("bash_output")):
        return nullcontext()
    from newel.workspace.background import open_background_commands

    return open_background_commands()


def _connection_notices(host: ExecutionHost, agent: CodingAgent) -> AbstractAsyncContextManager[None]:
    return host.monitor.notices(partial(_report_connection, agent)) if host.monitor else nullcontext()


async def _report_connection(agent: CodingAgent, message: str) -> None:
    from newel.agent.events import ErrorEvent

    await agent.emit(ErrorEvent(code="connection", message=message, level="info"))


def _first_session(
    settings: Settings, options: AgentOptions, project: str, own_id: str | None
) -> SessionManager:
    from newel.session.manager import SessionManager

    return SessionManager(
        directory=settings.home / "sessions",
        cwd=project,
        continue_=options.continue_,
        session=options.session,
        own_id=own_id,
        ephemeral=options.ephemeral,
    )


def _server_tools(
    settings: Settings,
    agent: CodingAgent,
    in_use: ResolvedModel,
    elicit: Elicit | None,
    parts: AgentParts,
    *,
    wait: bool,
    offered: ToolSelection | None,
    host: ExecutionHost,
) -> AbstractAsyncContextManager[None]:
    """The tools of MCP servers, if there are any; see ``add_server_tools``."""
    from newel.mcp import config_files

    more = parts.mcp_servers
    files = config_files(home=settings.home, cwd=settings.cwd)
    if more or any(os.path.lexists(file) for file in files):
        from newel.app.mcp_servers import add_server_tools

        return add_server_tools(
            settings, agent, in_use.provider, elicit, wait=wait, offered=offered, more=more, host=host
        )
    if offered is not None:
        offered.check(())
    return nullcontext()


def _selection(names: Sequence[str] | None, settings: Settings) -> ToolSelection | None:
    if names is None:
        return None
    from newel.app.extensions import tool_names
    from newel.tools.selection import ToolSelection

    return ToolSelection(names, tool_names(settings))


async def build_agent(
    settings: Settings, in_use: ResolvedModel, context: AgentContext, *, manner: str | None = None
) -> CodingAgent:
    """Put the parts together. ``manner`` replaces Newel's own instructions on style."""
    from newel.app.agent_tools import extension_tools, own_tools, policy_finder, runs_subagents, with_more
    from newel.app.extensions import extensions_of, with_commands
    from newel.app.run_config import prompt_context, run_config
    from newel.session.coding_agent import CodingAgent

    extensions = extensions_of(settings)
    shared = await _shared_parts(settings, in_use, context, extensions)
    workspaces, known, hooks = shared.workspaces, shared.known, shared.hooks
    offered = await own_tools(
        shared,
        run_subagent=lambda arguments, on_output: subagents.run(arguments, on_output),  # noqa: PLW0108 — made below
    )
    find_policy = policy_finder(shared, offered)
    compactor = _compactor(in_use)
    prompts = prompt_context(shared, manner)
    prepares = _prepares_commands(shared, offered)
    agent = CodingAgent(
        transport=_transport(shared, prepares=prepares),
        config=run_config(
            shared,
            tools=with_more(offered, [*extension_tools(shared, extensions), *context.more_tools]),
            prompts=prompts,
            policy=find_policy(settings.approve),
            compactor=compactor,
            messages=lambda: agent.state.messages,
        ),
        workspace=workspaces.workspace,
        works_in=workspaces.works_in,
        attachable=_attachable(workspaces, shared.secret_paths),
        attachable_by_prompts=known.attachable,
        session=context.session,
        open_session=context.open_session,
        journal=context.journal,
        models=in_use,
        find_model=context.find_model,
        find_policy=find_policy,
        templates=with_commands(known.templates, extensions),
        compactor=compactor,
        approve=settings.approve,
        info=_info(settings, known),
        skills=known.skills,
        rules=shared.book,
        background=context.background,
        hooks=hooks.rows if hooks else tuple,
        secrets=lambda: known_secrets(settings),
    )
    _attend(agent, shared, prepares=prepares)
    if runs_subagents(offered):
        from newel.app.subagents import open_subagents

        subagents = open_subagents(agent, shared, prompts, _compactor)
    return agent


def _info(settings: Settings, known: KnownContext) -> AgentInfo:
    from newel.context.instructions import describe
    from newel.session.coding_agent import AgentInfo

    return AgentInfo(
        sandbox=settings.sandbox.mode or "read-only",
        sandbox_problem=settings.sandbox_problem,
        instructions=describe(known.instructions),
        start_notices=known.notices,
    )


async def _shared_parts(
    settings: Settings, in_use: ResolvedModel, context: AgentContext, extensions: LoadedExtensions | None
) -> SharedParts:
    from newel.app.known_context import load_context
    from newel.app.workspace_factory import open_workspaces, secret_paths_of

    workspaces = await open_workspaces(settings, in_use.model, context.recorders, _folder_opener(context))
    book = await _rule_book(settings, workspaces.workspace, context.host)
    hooks = _agent_hooks(settings, context, workspaces, extensions.hooks if extensions else ())
    if hooks is not None:
        context = msgspec.structs.replace(context, ask=hooks.noticing(context.ask))
    secret_paths = secret_paths_of(settings, context.host, workspaces, book.current)
    return SharedParts(
        settings=settings,
        in_use=in_use,
        context=context,
        workspaces=workspaces,
        book=book,
        secret_paths=secret_paths,
        known=await load_context(settings, workspaces, secret_paths),
        hooks=hooks,
    )


def _agent_hooks(
    settings: Settings, context: AgentContext, workspaces: WorkspaceFactory, functions: Sequence[Hook]
) -> AgentHooks | None:
    """The hooks of the user, their extensions, and a project on this machine; None if there are none."""
    from newel.hooks import project_files, user_files

    own, project = settings.hooks, None if context.host.connection else Path(context.host.name)
    if own.disabled:
        return None
    files = user_files(home=settings.home, claude_settings=own.claude_settings)
    of_project = project_files(project, of_user=files) if project else []
    if (
        not functions
        and not own.entries()
        and not any(os.path.lexists(file) for file in (*files, *of_project))
    ):
        return None
    from newel.app.hooks import open_agent_hooks

    return open_agent_hooks(settings, context.host, workspaces, context.notices.of("hook", "info"), functions)


def _folder_opener(context: AgentContext) -> OpenFolder:
    open_folder = partial(context.host.workspace, context.folder)
    commands = context.background
    if commands is None:
        return open_folder
    from newel.workspace.background import DetachingWorkspace

    return lambda limits: DetachingWorkspace(open_folder(limits), commands)


def _prepares_commands(shared: SharedParts, own_tools: Sequence[Tool]) -> bool:
    """Whether to do, while the model answers, what its first command would wait for."""
    # In review mode a copy is made meanwhile, and a sandbox would take half of its repository for the whole.
    changes_files = shared.settings.approve not in {"plan", "read-only"} and not shared.workspaces.isolated
    return changes_files and any(tool.spec.name == "bash" for tool in own_tools)


def _transport(shared: SharedParts, *, prepares: bool) -> AgentTransport:
    from newel.agent.agent import ProviderTransport

    provider, recording = shared.in_use.provider, shared.workspaces.recording
    if prepares and recording and shared.context.host.connection is None:
        from newel.review.tracking.early_scan import EarlyScan

        provider = EarlyScan(provider, recording)
    transport = ProviderTransport(provider)
    return shared.hooks.for_agent(transport) if shared.hooks else transport


def _attend(agent: CodingAgent, shared: SharedParts, *, prepares: bool) -> None:
    """Let the surroundings follow the agent."""
    context = shared.context
    shared.workspaces.attend(agent)
    context.notices.attend(agent)
    if context.background is not None:
        from newel.app.background import attend_background

        attend_background(agent, context.background, shared.workspaces)
    if shared.hooks is not None:
        shared.hooks.attend(agent)
    if signals := shared.settings.otel.signals(os.environ):
        from newel.app.telemetry import attend_telemetry

        attend_telemetry(agent, shared.settings, signals)
    if prepares and agent.info.sandbox != "off":
        from newel.app.sandbox import start_early

        start_early(agent.agent, context.host, shared.workspaces.works_in.root)


def _attachable(workspaces: WorkspaceFactory, secret_paths: SecretPaths) -> AttachableFiles:
    from newel.app.workspace_factory import guard_secrets
    from newel.context.attachments import AttachableFiles

    return AttachableFiles(guard_secrets(workspaces.workspace, secret_paths), secret_paths.why_not_attached)


def _compactor(in_use: ResolvedModel) -> Compactor:
    from newel.context.compaction import Compactor

    compactor = Compactor(
        in_use.provider,
        in_use.small,
        context_window=None,
        find_window=in_use.find_window,
        agent_mode=in_use.agent_mode,
    )
    compactor.follow(in_use.model)
    return compactor


def known_secrets(settings: Settings) -> list[str]:
    """What must not appear in exports and logs. Reads files; never raises."""
    from newel.app.secrets import configured_secrets

    secrets = configured_secrets(settings.home, settings.cwd, os.environ)
    endpoint = settings.endpoint
    return [*secrets, endpoint.api_key] if endpoint and endpoint.api_key else secrets


async def _rule_book(settings: Settings, folder: Workspace, host: ExecutionHost) -> RuleBook:
    """The rules for an agent. Without a user to ask, there are no answers to keep, but those of earlier sessions count: those of the
    project, also in a worktree of it.
    """
    from newel.permissions.project_rules import load_project_rules

    return open_rule_book(settings, await load_project_rules(folder), host)


def open_rule_book(settings: Settings, of_project: RuleSet, host: ExecutionHost) -> RuleBook:
    """The rules and servers of the project on ``host``, which has the rules ``of_project``."""
    from newel.permissions.allowlist import RuleAllowlist, ServerAllowlist
    from newel.permissions.rule_book import RuleBook

    project = os.path.realpath(host.name) if host.connection is None else host.name
    return RuleBook(
        settings.rules,
        of_project,
        RuleAllowlist(settings.home, project),
        domains=settings.sandbox.domains,
        servers=ServerAllowlist(settings.home, project),
    )
