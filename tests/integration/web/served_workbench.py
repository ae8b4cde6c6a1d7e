"""A real workbench behind a real server on a free port of this machine; only the model is scripted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import websockets
from fastapi import FastAPI
from websockets.typing import Subprotocol

from newel.agent.agent import ProviderTransport
from newel.agent.messages import AssistantMessage, TextContent, ToolCall
from newel.agent.ports import AgentMode, Model, ModelRequest, OnDelta, Provider, RunConfig
from newel.agent.transform import Transformer
from newel.context.built_in_prompts import BUILT_IN
from newel.context.file_completion import FileCompleter
from newel.context.prompt_templates import Template
from newel.jobs.sqlite import open_engine
from newel.mcp.server_config import ServerConfig
from newel.mcp.types import ServerStatus
from newel.permissions.allowlist import RuleAllowlist, ServerAllowlist
from newel.permissions.approval import approval_policy
from newel.permissions.project_permissions import ProjectPermissions
from newel.permissions.rule_book import RuleBook
from newel.permissions.rules import RuleSet
from newel.permissions.secret_paths import SecretPaths
from newel.providers.listed_models import ModelDetails
from newel.runs.chat_session import AgentSpec, approval_handler
from newel.runs.event_hub import EventHub
from newel.runs.models import Contract, ModelStatus
from newel.session.coding_agent import CodingAgent
from newel.session.listing import SessionEntry, list_sessions
from newel.session.manager import SessionManager
from newel.session.paths import find_exact
from newel.tools import coding_tools
from newel.web.app import create_app
from newel.web.security import SEND_TIMEOUT_S, ServerAccess
from newel.web.server import REQUEST_TIMEOUT_S, listen, serve
from newel.web.websocket import ServerInfo
from newel.workbench.tab_log import TabLog
from newel.workbench.workbench import TabChange, Workbench
from newel.workspace.git_worktree import Worktree, make_worktree
from newel.workspace.local import LocalWorkspace
from tests.scripted_models import ScriptedModels
from tests.scripted_provider import deltas

MODELS = ("scripted", "another")
TOKEN = "the-token-of-all-these-tests-0123456789"
ABOUT = ServerInfo(
    newel="0.1.0", project="/home/me/shop", approve="auto", sandbox="workspace", ephemeral=True
)


def says(text: str, *calls: ToolCall) -> AssistantMessage:
    return AssistantMessage(
        [TextContent(text), *calls] if text else [*calls],
        model="scripted",
        stop_reason="toolUse" if calls else "stop",
    )


class Echo:
    """A model that repeats the last prompt, as often as it asks for."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        last = request.messages[-1] if request.messages else None
        message = says(f"You said: {getattr(last, 'text', None) or getattr(last, 'output', '')}")
        for delta in deltas(message):
            await on_delta(delta)
        return message


class ScriptedAgents:
    """Agents with the real tools, in one folder; ``approve`` is the approval mode."""

    secrets: Sequence[str] = ()
    model = ModelStatus(name="scripted")

    async def use_server(self, base_url: str, api_key: str | None, model: str | None) -> list[str]:
        raise NotImplementedError

    def __init__(self, folder: Path, provider: Provider, approve: Any = "auto") -> None:
        self.folder, self.home = folder / "project", folder / "home"
        self.folder.mkdir(exist_ok=True)
        self.provider = provider
        self.approve = approve

    async def release(self, session: str) -> None:
        pass

    async def create(self, spec: AgentSpec) -> CodingAgent:
        def open_session(session: str | None) -> SessionManager:
            return SessionManager(
                directory=self.home / "sessions", cwd=spec.folder, own_id=session, settle=False
            )

        workspace = LocalWorkspace(spec.folder)
        return CodingAgent(
            transport=ProviderTransport(self.provider),
            config=RunConfig(
                model=Model(spec.model or "scripted"),
                transform=Transformer(),
                tools=coding_tools(workspace),
                policy=approval_policy(
                    self.approve,
                    ask=approval_handler(spec.ask),
                    folder=spec.folder,
                    places=SecretPaths(workspace.root, home=workspace.root),
                ),
            ),
            workspace=workspace,
            session=open_session(spec.session),
            open_session=open_session,
            models=ScriptedModels(*MODELS, provider="openai"),
            templates={},
            journal=spec.record,
        )

    def refresh_tools(self, agent: CodingAgent, spec: AgentSpec) -> None:
        pass

    def apply_limits(self, contract: Contract) -> Contract:
        return contract

    async def create_worktree(self, agent: str) -> Worktree:
        return await make_worktree(LocalWorkspace(str(self.folder)), str(self.home / "worktrees"), agent)

    def judge_model(self, agent: CodingAgent, *, small: bool) -> Model:
        return agent.state.model

    async def find_model(self, mode: AgentMode) -> Model:
        return Model("scripted")

    async def list_models(self, mode: AgentMode | None = None) -> list[str]:
        return list(MODELS)

    async def list_details(self, mode: AgentMode | None = None) -> list[ModelDetails]:
        return [ModelDetails(name, context_window=200_000, input_price=3, output_price=15) for name in MODELS]

    sandbox_problem = ""

    async def list_templates(self) -> dict[str, Template]:
        return {each.name: each for each in BUILT_IN}

    async def complete_path(self, part: str) -> list[str]:
        return await FileCompleter(LocalWorkspace(str(self.folder))).complete_path(part)

    def list_sessions(self, query: str = "") -> list[SessionEntry]:
        return list_sessions(self.home / "sessions", str(self.folder), query=query)

    def session_file(self, session: str, folder: str) -> Path | None:
        return find_exact(self.home / "sessions", folder, session)


class WorkbenchWithoutServers:
    """A workbench without MCP servers."""

    configs: list[ServerConfig] = []

    def statuses(self) -> list[ServerStatus]:
        return []

    async def restart(self, name: str) -> None: ...
    async def set_enabled(self, name: str, enabled: bool) -> None: ...
    async def set_tool(self, name: str, tool: str, enabled: bool) -> None: ...
    async def set_trusted(self, name: str, trusted: bool) -> None: ...


def permissions_of(home: Path, project: str) -> ProjectPermissions:
    """The permissions of a project without rules of its own."""

    async def load_project() -> RuleSet:
        return RuleSet()

    def open_book(rules: RuleSet) -> RuleBook:
        return RuleBook(
            RuleSet(), rules, RuleAllowlist(home, project), servers=ServerAllowlist(home, project)
        )

    return ProjectPermissions(load_project, open_book)


class CountingWorkbench(Workbench):
    """A workbench that counts its watchers."""

    watchers = 0

    def watch(self, callback: Callable[[TabChange], None]) -> Callable[[], None]:
        unsubscribe = super().watch(callback)
        self.watchers += 1

        def leave() -> None:
            unsubscribe()
            self.watchers -= 1

        return leave


class ServedWorkbench:
    """A running server. ``client`` has the token; ``ended`` is set when the server ends by itself."""

    def __init__(
        self,
        app: FastAPI,
        board: CountingWorkbench,
        door: ServerAccess,
        client: httpx2.AsyncClient,
        ended: anyio.Event,
    ) -> None:
        self.app = app
        self.ended = ended
        self.board = board
        self.door = door
        self.client = client
        self.url = f"http://127.0.0.1:{door.port}"

    def socket(self, *subprotocols: str, **headers: str) -> Any:
        """A WebSocket to connect with; without ``headers`` and ``subprotocols``, with the token."""
        return websockets.connect(
            f"ws://127.0.0.1:{self.door.port}/ws",
            subprotocols=[Subprotocol(each) for each in subprotocols] or None,
            additional_headers=headers or ({} if subprotocols else {"Authorization": f"Bearer {TOKEN}"}),
            max_size=2**26,
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that happens soon."""
        with anyio.fail_after(10):
            while not holds():  # noqa: ASYNC110 — what is waited for is of many kinds, and tells nobody
                await anyio.sleep(0.01)


@asynccontextmanager
async def serve_workbench(
    folder: Path,
    provider: Provider,
    *,
    approve: str = "auto",
    send_timeout: float = SEND_TIMEOUT_S,
    request_timeout: int = REQUEST_TIMEOUT_S,
    **options: Any,
) -> AsyncGenerator[ServedWorkbench]:
    """A workbench in ``folder``, which stores its jobs there, and its server."""
    listener = listen("127.0.0.1", 0)
    door = ServerAccess(token=TOKEN, host="127.0.0.1", port=listener.port)
    crew = ScriptedAgents(folder, provider, approve)
    closing, ready, ended = anyio.Event(), anyio.Event(), anyio.Event()
    async with (
        open_engine(folder / "jobs") as engine,
        EventHub(engine) as feed,
        httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{door.port}",
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=10,
            trust_env=False,
        ) as client,
        anyio.create_task_group() as tasks,
    ):
        log = await TabLog.open(engine)
        board = CountingWorkbench(
            engine,
            feed,
            crew,
            WorkbenchWithoutServers(),
            log=log,
            folder=str(crew.folder),
            home=crew.home,
            permissions=permissions_of(crew.home, str(crew.folder)),
        )
        await board.load()
        app = create_app(
            board, info=ABOUT, access=door, closing=closing, send_timeout=send_timeout, **options
        )
        tasks.start_soon(board.run)

        async def run() -> None:
            await serve(app, listener, announce=ready.set, closing=closing, request_timeout=request_timeout)
            ended.set()

        tasks.start_soon(run)
        await ready.wait()
        yield ServedWorkbench(app, board, door, client, ended)
        tasks.cancel_scope.cancel()
