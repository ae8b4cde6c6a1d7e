"""Creates the agents of a workbench, all on one model server, each with the tools of the MCP servers.

A workbench opens without a model, too; its user can name a server in the page, for this process only.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from newel.agent.errors import ConfigError, ProviderError
from newel.agent.messages import AssistantMessage
from newel.agent.ports import AgentMode, Model, ModelRequest, OnDelta, Provider, Tool
from newel.app.agent_context import AgentContext
from newel.app.agent_factory import build_agent, known_secrets
from newel.app.agent_hosts import AgentHosts, open_agent_hosts
from newel.app.agent_models import AgentModels, open_models
from newel.app.mcp_servers import sampler, tool_servers
from newel.app.model_resolver import NoModelConfigured, ResolvedModel, resolved_model
from newel.app.workspace_factory import open_recorders, project_secret_paths
from newel.config.settings import Settings
from newel.context.prompt_templates import Template
from newel.mcp.manager import McpManager
from newel.mcp.types import Elicit, ElicitAnswer, ElicitRequest, Reach
from newel.permissions.approval import ApprovalMode
from newel.permissions.nested import enter
from newel.providers.http.urls import HTTP, OLLAMA, is_loopback
from newel.providers.model_server import connect
from newel.runs.chat_session import AgentSpec, AskUser, approval_handler
from newel.runs.models import Contract, ModelStatus, TabQuestion
from newel.session import paths
from newel.session.coding_agent import CodingAgent
from newel.session.listing import SessionEntry, list_sessions
from newel.session.manager import SessionManager
from newel.text.format import one_line
from newel.text.sanitize import redact_url, sanitize
from newel.workspace.execution_host import ExecutionHost
from newel.workspace.git_worktree import Worktree, make_worktree
from newel.workspace.glob import is_text
from newel.workspace.process.output import OutputLimits

if TYPE_CHECKING:
    from newel.context.file_completion import FileCompleter
    from newel.providers.listed_models import ListedModel, ModelDetails


NOT_TEXT: Final = (
    "The name of {folder!a} is not UTF-8, so the journal of a workbench or an agent on a contract cannot name it. Rename the folder, or "
    "use a conversation in the terminal: `newel`."
)


@asynccontextmanager
async def open_agent_factory(
    settings: Settings, host: ExecutionHost, *, ephemeral: bool, attended: bool
) -> AsyncGenerator[WorkbenchAgentFactory]:
    """A factory with its model server and its tool servers. ``attended``: a user can answer questions, and can name a model
    if there is none, for which the factory has the reason. Raises ``ConfigError`` and ``ProviderError``.
    """
    if not is_text(host.name):
        raise ConfigError(NOT_TEXT.format(folder=host.name))
    enter(settings.approve, attended=attended)
    async with AsyncExitStack() as stack:
        missing = ""
        models = await stack.enter_async_context(open_models(settings, host))
        try:
            in_use = await models.find(settings.agent_mode)
        except (ConfigError, ProviderError) as error:
            if not attended:
                raise
            in_use = no_model(settings)
            missing = error.summary if isinstance(error, NoModelConfigured) else str(error)
            message = f"newel: {sanitize(str(error))}\nThe page opens anyway: set up a model there."
            print(message, file=sys.stderr)  # noqa: T201 — for the user
        if in_use.where and not in_use.is_on_host:
            print(f"newel: The model is {one_line(in_use.name)} {in_use.where}.", file=sys.stderr)  # noqa: T201 — the user did not choose it
        servers, problems = tool_servers(
            settings,
            on_change=lambda: factory.servers_changed(),  # noqa: PLW0108 — it is replaced later
            sample=sampler(settings, models.provider, lambda: factory.in_use),
            host=host,
        )
        for problem in problems:
            print(f"newel: {sanitize(problem)}", file=sys.stderr)  # noqa: T201 — for the user
        hosts = await stack.enter_async_context(open_agent_hosts(settings, host, attended=attended))
        factory = WorkbenchAgentFactory(
            settings, host, models, in_use, hosts=hosts, servers=servers, ephemeral=ephemeral, stack=stack
        )
        factory.model_problem = missing
        stack.callback(factory.recorders.close)
        stack.push_async_callback(factory.close)
        await stack.enter_async_context(servers)
        yield factory


UNSET = "No model is set up yet. Choose Set up a model, then try again."


class NoServer:
    """Fulfils ``ModelServer`` if there is none."""

    name = "none"
    way = None
    is_local = False
    supports_schema = False

    async def complete(self, _request: ModelRequest, _on_delta: OnDelta, /) -> AssistantMessage:
        raise ProviderError(UNSET)

    async def models(self) -> list[str]:
        raise ProviderError(UNSET)

    async def list_models(self) -> list[ListedModel]:
        raise ProviderError(UNSET)

    async def window(self, model: str) -> int | None:  # noqa: ARG002 — the shape of a server
        return None

    async def is_priced(self, model: str) -> bool:  # noqa: ARG002 — the shape of a server
        return False

    async def aclose(self) -> None:
        pass


def no_model(settings: Settings) -> ResolvedModel:
    server = NoServer()
    return ResolvedModel(
        server=server, provider=server, name="", facts=settings.models, agent_mode=settings.agent_mode
    )


class CurrentModel:
    """A ``Provider`` that sends requests without a model to the one in use now."""

    def __init__(self, provider: Provider, in_use: Callable[[], ResolvedModel]) -> None:
        self._provider = provider
        self._in_use = in_use

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        if not request.model.id:
            if not (now := self._in_use()).name:
                raise ProviderError(UNSET)
            request = msgspec.structs.replace(request, model=now.model)
        return await self._provider.complete(request, on_delta)


async def connect_named(
    settings: Settings, base_url: str, api_key: str | None, model: str | None, stack: AsyncExitStack
) -> ResolvedModel | list[str]:
    """The server at an address, which ``stack`` closes; or the names of its models, if it has several and none was chosen. Raises
    ``ConfigError`` for an invalid or insecure address, and ``ProviderError``.
    """
    base_url = base_url.strip().rstrip("/")
    scheme = base_url.partition("://")[0].lower()
    if scheme not in {*HTTP, *OLLAMA}:
        raise ConfigError(
            "The address must begin with http://, https:// or ollama://, like http://127.0.0.1:11434/v1."
        )
    if not scheme.endswith("https") and not is_loopback(base_url):
        raise ConfigError(
            f"{redact_url(base_url)} is another machine, and the connection would not be encrypted. Use its https:// address, "
            "or set LLM_BASE_URL before the start to use it anyway."
        )
    async with AsyncExitStack() as undo:
        server = connect(base_url, api_key or None)
        undo.push_async_callback(server.aclose)
        if model is None:
            names = await server.models()
            if len(names) > 1:
                return names
            if not names:
                raise ConfigError(f"{redact_url(base_url)} lists no models. Enter the name of one.")
            model = names[0]
        stack.push_async_exit(undo.pop_all())
    return resolved_model(server, settings, model)


class WorkbenchAgentFactory:
    """Fulfils ``newel.runs.chat_session.AgentFactory``. Use ``open_agent_factory``. ``host`` is the project's place, ``hosts`` are those of
    the agents. ``servers_changed`` is called when the status of a tool server changes. ``stack`` closes the model servers that the user
    names later.
    """

    def __init__(
        self,
        settings: Settings,
        host: ExecutionHost,
        models: AgentModels,
        in_use: ResolvedModel,
        *,
        hosts: AgentHosts,
        servers: McpManager,
        ephemeral: bool,
        stack: AsyncExitStack,
    ) -> None:
        self._stack = stack
        self._hosts = hosts
        self._settings = settings
        self.host = host
        self.models = models
        self.in_use = in_use
        """The model of the configured mode."""
        self.provider: Provider = CurrentModel(models.provider, lambda: self.in_use)
        self.model_problem = ""
        self.secrets: list[str] = known_secrets(settings)
        self.servers = servers
        self.servers_changed: Callable[[], None] = lambda: None
        self._ephemeral = ephemeral
        self._completer: FileCompleter | None = None
        self.recorders = open_recorders(settings, ephemeral=ephemeral)
        self._reach: weakref.WeakKeyDictionary[CodingAgent, Reach] = weakref.WeakKeyDictionary()
        self._own_tools: weakref.WeakKeyDictionary[CodingAgent, Sequence[Tool]] = weakref.WeakKeyDictionary()

    @property
    def model(self) -> ModelStatus:
        in_use = self.in_use
        return ModelStatus(
            name=in_use.name, where=in_use.where, problem=self.model_problem, agent_mode=self.models.mode
        )

    @property
    def approve(self) -> ApprovalMode:
        return self._settings.approve

    @property
    def sandbox_problem(self) -> str:
        return self._settings.sandbox_problem

    async def find_model(self, mode: AgentMode) -> Model:
        return (await self._in_mode(mode)).model

    async def _in_mode(self, mode: AgentMode | None) -> ResolvedModel:
        if mode is None or (mode == self.models.mode and self.in_use.name):
            return self.in_use
        return await self.models.find(mode)

    async def use_server(self, base_url: str, api_key: str | None, model: str | None) -> list[str]:
        if api_key:
            self.secrets.append(api_key)  # before its first use: no log may contain it
        self.models.check_address(base_url)
        resolved = await connect_named(self._settings, base_url, api_key, model, self._stack)
        if isinstance(resolved, list):
            return resolved
        self.models.use(resolved)
        self.in_use, self.model_problem = await self.models.find(self.models.mode), ""
        return []

    async def create(self, spec: AgentSpec) -> CodingAgent:
        await self._close_agents(spec.session)  # one that was discarded: its hooks learn of its end once
        in_use = await self._in_mode(spec.agent_mode)
        name = spec.model or in_use.name
        if not name:
            raise ConfigError(UNSET)

        def open_session(session: str | None) -> SessionManager:
            # The run itself resumes the calls that a crash left open.
            return SessionManager(
                directory=self._settings.home / "sessions",
                cwd=spec.folder,
                own_id=session,
                ephemeral=self._ephemeral,
                settle=False,
            )

        settings = msgspec.structs.replace(self._settings, cwd=Path(spec.folder))
        ask = approval_handler(spec.ask)
        place = await self._hosts.of(spec.session, ask)
        with ExitStack() as undo:
            context = AgentContext(
                host=place.host,
                folder=spec.folder,
                session=undo.enter_context(open_session(spec.session)),
                open_session=open_session,
                find_model=self._in_mode,
                ask=ask,
                notices=place.notices,
                journal=spec.record,
                recorders=self.recorders,
            )
            own = msgspec.structs.replace(in_use, name=name, provider=self.provider)
            agent = await build_agent(settings, own, context)
            undo.pop_all()
        self._own_tools[agent] = agent.state.tools
        self._reach[agent] = place.notices.reach
        return agent

    async def release(self, session: str) -> None:
        await self._close_agents(session)
        await self._hosts.close(session)

    async def close(self) -> None:
        """All conversations are over."""
        await self._close_agents(None)

    async def _close_agents(self, session: str | None) -> None:
        """Close the agents of a session, or all of them. One may have moved to another session."""
        for agent in [*self._own_tools]:
            if session in {None, agent.session.get_id()}:
                await agent.close()
                self._own_tools.pop(agent, None)

    def refresh_tools(self, agent: CodingAgent, spec: AgentSpec) -> None:
        sample = sampler(self._settings, self.provider, lambda: agent.state)
        served = self.servers.tools(elicit_handler(spec.ask), sample, self._reach[agent])
        agent.set_tools([*self._own_tools[agent], *served])

    def apply_limits(self, contract: Contract) -> Contract:
        limits = self._settings.limits
        return msgspec.structs.replace(
            contract,
            max_tokens=contract.max_tokens or limits.max_tokens,
            max_cost=contract.max_cost or limits.max_cost,
            agent_mode=contract.agent_mode or self.models.mode,
        )

    async def create_worktree(self, agent: str) -> Worktree:
        monitor = self.host.monitor
        project, host = self.host.own_workspace(), self.host
        with monitor.request_deadline() if monitor else nullcontext():
            return await make_worktree(project, host.worktrees(self._settings.home), agent)

    def judge_model(self, agent: CodingAgent, *, small: bool) -> Model:
        return agent.compactor.model if small and agent.compactor else agent.state.model

    async def list_models(self, mode: AgentMode | None = None) -> list[str]:
        in_use = await self._in_mode(mode)
        with self._deadline(in_use):
            return await in_use.list_models()

    async def list_details(self, mode: AgentMode | None = None) -> list[ModelDetails]:
        in_use = await self._in_mode(mode)
        with self._deadline(in_use):
            return await in_use.list_details()

    def _deadline(self, in_use: ResolvedModel) -> AbstractContextManager[None]:
        monitor = self.host.monitor if in_use.is_on_host else None
        return monitor.request_deadline() if monitor else nullcontext()

    async def list_templates(self) -> dict[str, Template]:
        from newel.app.known_context import load_prompts

        workspace = self.host.workspace(self.host.name, OutputLimits())
        is_private = project_secret_paths(self._settings, self.host, workspace.root).holds_secrets
        monitor = self.host.monitor
        with monitor.request_deadline() if monitor else nullcontext():
            return await load_prompts(self._settings, workspace, is_private)

    async def complete_path(self, part: str) -> list[str]:
        from newel.app.workspace_factory import guard_secrets
        from newel.context.file_completion import FileCompleter

        monitor = self.host.monitor
        with monitor.request_deadline() if monitor else nullcontext():
            if self._completer is None:
                workspace = self.host.workspace(self.host.name, OutputLimits())
                secret_paths = project_secret_paths(self._settings, self.host, workspace.root)
                self._completer = FileCompleter(guard_secrets(workspace, secret_paths))
            return await self._completer.complete_path(part)

    def list_sessions(self, query: str = "") -> list[SessionEntry]:
        return list_sessions(self._settings.home / "sessions", self.host.name, limit=200, query=query)

    def session_file(self, session: str, folder: str) -> Path | None:
        if self._ephemeral:
            return None
        return paths.find_exact(self._settings.home / "sessions", folder, session)


def elicit_handler(ask: AskUser) -> Elicit:
    """Asks the user for a tool server. A form that the page could not show is declined."""

    async def elicit(request: ElicitRequest) -> ElicitAnswer:
        from newel.mcp.elicitation_form import BadForm, fields

        title = f"{request.server}: {request.message}"
        if request.url is not None:
            question = TabQuestion(id="", kind="link", title=title, url=request.url)
        else:
            try:
                fields(request.schema or {})
            except BadForm:
                return ElicitAnswer(action="decline")
            question = TabQuestion(id="", kind="form", title=title, fields=request.schema or {})
        try:
            return msgspec.convert(await ask(question), ElicitAnswer)
        except msgspec.ValidationError:
            return ElicitAnswer(action="cancel")

    return elicit
