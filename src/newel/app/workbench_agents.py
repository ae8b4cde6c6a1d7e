"""The agents of a workbench: made from the settings, all on one model server, each with the tool servers' tools."""

from __future__ import annotations

import sys
import weakref
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, nullcontext
from pathlib import Path

import msgspec

from newel.agent.errors import ConfigError, ProviderError
from newel.agent.ports import Model, Tool
from newel.app.agent_factory import AgentContext, build_agent
from newel.app.mcp_servers import sampler, tool_servers
from newel.app.model_resolver import NoModelConfigured, ResolvedModel, open_model
from newel.app.model_setup import UNSET, CurrentModel, connect_named, no_model
from newel.config.settings import Settings
from newel.mcp.elicitation import Elicit, ElicitAnswer, ElicitRequest
from newel.mcp.manager import McpManager
from newel.permissions.nested import enter
from newel.review.tracking.recording_workspace import RecorderRegistry
from newel.runs.chat_session import AgentSpec
from newel.runs.models import Contract, TabQuestion
from newel.runs.pending_questions import AskUser, approval_handler
from newel.session import paths
from newel.session.coding_agent import CodingAgent
from newel.session.listing import SessionSummary, list_sessions
from newel.session.manager import SessionManager
from newel.text.format import one_line
from newel.text.sanitize import sanitize
from newel.workspace.execution_host import ExecutionHost
from newel.workspace.git_worktree import Worktree, make_worktree
from newel.workspace.process.runner import OutputLimits


@asynccontextmanager
async def open_crew(
    settings: Settings, ground: ExecutionHost, *, ephemeral: bool, attended: bool
) -> AsyncGenerator[WorkbenchAgentFactory]:
    """The crew of a ground, its model server and its tool servers. ``attended``: people are there, who can be asked, and who
    can name a model where there is none: then the crew says why. Raises ``ConfigError`` and ``ProviderError``.
    """
    enter(settings.approve, attended=attended)
    async with AsyncExitStack() as stack:
        missing = ""
        try:
            in_use = await stack.enter_async_context(open_model(settings, ground))
        except (ConfigError, ProviderError) as error:
            if not attended:
                raise
            in_use = no_model(settings)
            missing = error.looked if isinstance(error, NoModelConfigured) else str(error)
            words = f"newel: {sanitize(str(error))}\nThe page opens all the same: name a server there."
            print(words, file=sys.stderr)  # noqa: T201 — a person must know
        if in_use.where and not in_use.is_on_host:
            print(f"newel: The model is {one_line(in_use.name)} {in_use.where}.", file=sys.stderr)  # noqa: T201 — nobody chose it
        servers, problems = tool_servers(
            settings,
            on_change=lambda: crew.servers_changed(),  # noqa: PLW0108 — it is set to something else later
            sample=sampler(settings, CurrentModel(lambda: crew.in_use), in_use.model),
        )
        for problem in problems:
            print(f"newel: {sanitize(problem)}", file=sys.stderr)  # noqa: T201 — a person must know
        crew = WorkbenchAgentFactory(
            settings, ground, in_use, servers=servers, ephemeral=ephemeral, closing=stack
        )
        crew.problem = missing
        stack.callback(crew.recorders.close)
        await stack.enter_async_context(servers)
        yield crew


class WorkbenchAgentFactory:
    """Fulfils ``newel.runs.chat_session.AgentFactory``. Use ``open_crew``. ``servers_changed`` is called when a tool server is no
    longer as it was. ``problem`` says why there is no model to ask; it is empty where there is one, as far as is known.
    ``closing`` closes the servers that are named later.
    """

    def __init__(
        self,
        settings: Settings,
        ground: ExecutionHost,
        in_use: ResolvedModel,
        *,
        servers: McpManager,
        ephemeral: bool,
        closing: AsyncExitStack,
    ) -> None:
        self._closing = closing
        self._settings = settings
        self.ground = ground
        self.in_use = in_use
        self.provider = CurrentModel(lambda: self.in_use)
        self.problem = ""
        endpoint = settings.endpoint
        self.secrets: list[str] = [endpoint.api_key] if endpoint and endpoint.api_key else []
        self.servers = servers
        self.servers_changed: Callable[[], None] = lambda: None
        self._ephemeral = ephemeral
        self.recorders = RecorderRegistry(None if ephemeral else settings.home, noted=settings.home)
        self._own_tools: weakref.WeakKeyDictionary[CodingAgent, Sequence[Tool]] = weakref.WeakKeyDictionary()

    @property
    def model(self) -> str:
        return self.in_use.name

    @property
    def where(self) -> str:
        return self.in_use.where

    async def use_server(self, base_url: str, api_key: str | None, model: str | None) -> list[str]:
        """Ask the server at an address from now on; see ``connect_named``. Returns the names of its models where one of
        them has to be chosen first: then nothing has changed.
        """
        if api_key:
            self.secrets.append(api_key)  # before it is used: no log may have it
        found = await connect_named(self._settings, base_url, api_key, model, self._closing)
        if isinstance(found, list):
            return found
        self.in_use, self.problem = found, ""
        return []

    async def make(self, seat: AgentSpec) -> CodingAgent:
        if not (seat.model or self.model):
            raise ConfigError(UNSET)

        def open_session(session: str | None) -> SessionManager:
            # Calls that a crash left open are the run's, which knows how to go on with them.
            return SessionManager(
                directory=self._settings.home / "sessions",
                cwd=seat.folder,
                own_id=session,
                ephemeral=self._ephemeral,
                settle=False,
            )

        settings = msgspec.structs.replace(self._settings, cwd=Path(seat.folder))
        with ExitStack() as undo:
            place = AgentContext(
                ground=self.ground,
                folder=seat.folder,
                session=undo.enter_context(open_session(seat.session)),
                open_session=open_session,
                ask=approval_handler(seat.put),
                journal=seat.journal,
                recorders=self.recorders,
            )
            name = seat.model or self.model
            in_use = msgspec.structs.replace(self.in_use, name=name, provider=self.provider)
            agent = await build_agent(settings, in_use, place)
            undo.pop_all()
        self._own_tools[agent] = agent.state.tools
        return agent

    def prepare(self, agent: CodingAgent, seat: AgentSpec) -> None:
        agent.agent.set_tools([*self._own_tools[agent], *self.servers.tools(elicit_by(seat.put))])

    def capped(self, contract: Contract) -> Contract:
        limits = self._settings.limits
        return msgspec.structs.replace(
            contract,
            max_tokens=contract.max_tokens or limits.max_tokens,
            max_cost=contract.max_cost or limits.max_cost,
        )

    async def worktree(self, agent: str) -> Worktree:
        project, line = self.ground.workspace(self.ground.name, OutputLimits()), self.ground.line
        with line.patience() if line is not None else nullcontext():
            return await make_worktree(project, self.ground.worktrees(self._settings.home), agent)

    def judge(self, agent: CodingAgent, *, small: bool) -> Model:
        name = self.in_use.small_name if small else None
        return self.in_use.describe(name) if name else agent.state.model

    async def models(self) -> list[str]:
        line = self.ground.line if self.in_use.is_on_host else None
        with line.patience() if line is not None else nullcontext():
            return await self.in_use.server.models()

    def sessions(self) -> list[SessionSummary]:
        return list_sessions(self._settings.home / "sessions", self.ground.name, limit=200)

    def session_file(self, session: str, folder: str) -> Path | None:
        if self._ephemeral:
            return None
        return paths.known(self._settings.home / "sessions", folder, session)


def elicit_by(put: AskUser) -> Elicit:
    """A tool server's way to ask a person, by putting a question."""

    async def elicit(request: ElicitRequest) -> ElicitAnswer:
        title = f"{request.server}: {request.message}"
        if request.url is not None:
            question = TabQuestion(id="", kind="link", title=title, url=request.url)
        else:
            question = TabQuestion(id="", kind="form", title=title, fields=request.schema or {})
        try:
            return msgspec.convert(await put(question), ElicitAnswer)
        except msgspec.ValidationError:
            return ElicitAnswer(action="cancel")

    return elicit
