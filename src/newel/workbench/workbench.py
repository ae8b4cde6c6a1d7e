"""``Workbench``: the tabs of one folder, the runs that answer in them, and the services that its front end shows.

async with task_group() as tasks:
    workbench = Workbench(engine, hub, factory, servers, log=await TabLog.open(engine), folder=…, home=…)
    await workbench.load()
    tasks.start_soon(workbench.run)
    tab = await workbench.open_chat()
    run = await tab.send(UserMessage(content="Fix the bug in server.py"))
    async for frame in follow(tab):
        …

front end ──command──► Workbench ──► TabSession ──job──► Engine ──lease──► TabSession ──► agent
front end ◄──TabChange── Workbench ◄──notify── TabSession
front end ◄──Snapshot, SequencedEvent── tab_reader ◄── EventHub ◄── JournalWriter ◄── agent
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import ConnectionFailed, NewelError
from newel.agent.messages import new_id
from newel.agent.ports import AgentMode, Model, ThinkingLevel
from newel.concurrency import task_group
from newel.contracts.contract_job import CONTRACT, ContractParams
from newel.jobs.engine import Engine, JobOutcome, Lease
from newel.jobs.worker import Handler, Worker
from newel.mcp.types import ServerStatus
from newel.permissions.approval import ApprovalMode
from newel.permissions.project_permissions import ProjectPermissions
from newel.runs.chat_session import AgentFactory
from newel.runs.chat_turn import TURN, TurnParams
from newel.runs.event_hub import EventHub
from newel.runs.models import ModelStatus, Tab
from newel.runs.run_events import Notice
from newel.session.coding_agent import CannotChangeMode, check_approval_change
from newel.session.listing import SessionEntry
from newel.text.sanitize import plain_line
from newel.workbench.tab_log import TabLog, TabSaved, TabSettings
from newel.workbench.tab_session import CLOSED, NEW_CHAT, ChangeKind, TabServiceError, TabServices, TabSession

if TYPE_CHECKING:
    from newel.mcp.server_config import ServerConfig
    from newel.review_jobs.service import ReviewService
    from newel.workspace.ssh.host_monitor import HostMonitor, HostState

PROBE_TIMEOUT_S = 5.0
PROBE_INTERVAL_S = 10.0
"""Until the model's server has answered once."""
PERMISSIONS_INTERVAL_S = 1.0
"""Between two looks whether what answers have allowed has changed, here or in another Newel."""

OpenReview = Callable[[], Awaitable["ReviewService"]]


class ToolServers(Protocol):
    """The MCP servers (``newel.mcp.manager``). Methods raise ``NewelError`` for unknown names."""

    @property
    def configs(self) -> list[ServerConfig]: ...

    def statuses(self) -> list[ServerStatus]: ...

    async def restart(self, name: str, /) -> None: ...

    async def set_enabled(self, name: str, enabled: bool, /) -> None: ...

    async def set_tool(self, name: str, tool: str, enabled: bool, /) -> None: ...

    async def set_trusted(self, name: str, trusted: bool, /) -> None: ...


class TabChange(msgspec.Struct, frozen=True):
    """A reason to read something again. ``tab`` is empty for changes of no single tab. ``revs`` are the revisions of files whose
    reviews changed; none means that any may have.
    """

    kind: ChangeKind | Literal["review"]
    tab: str = ""
    revs: tuple[tuple[str, int], ...] = ()


class Workbench:
    """Call ``load`` first. Logs are written to ``home``. ``servers`` are the agents' tool servers, ``permissions`` what agents may do in
    the project, ``monitor`` watches the host that they work on, and ``open_review`` is called as soon as the workbench runs.
    """

    def __init__(
        self,
        engine: Engine,
        hub: EventHub,
        factory: AgentFactory,
        servers: ToolServers,
        *,
        log: TabLog,
        folder: str,
        home: Path,
        permissions: ProjectPermissions,
        open_review: OpenReview | None = None,
        monitor: HostMonitor | None = None,
    ) -> None:
        self.engine, self.hub, self.factory, self.servers = engine, hub, factory, servers
        self.folder = folder
        self.permissions = permissions
        self._log = log
        self._services = TabServices(engine, hub, factory, log, self.notify, folder, home)
        self._tabs = {tab.id: self._restored(tab, log.stopped_runs.get(tab.id)) for tab in log.tabs.values()}
        self._opening, self._choosing_default = anyio.Lock(), anyio.Lock()
        """Two windows, or programs, may want the same."""
        self._subscribers: list[Callable[[TabChange], None]] = []
        self._open_review = open_review
        self._review: ReviewService
        self._review_opened = anyio.Event()
        self._monitor = monitor
        self._model_silence = ""
        """Why the model's server did not answer the last probe."""

    async def load(self) -> None:
        """Restore the tabs from their latest runs. Call it once, before anything else. Raises ``EngineError``."""
        for tab in self._tabs.values():
            await tab.load()

    # -- changes ----------------------------------------------------------------------------------

    def watch(self, callback: Callable[[TabChange], None]) -> Callable[[], None]:
        """Call ``callback`` with every change from now on; the returned function ends that."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback) if callback in self._subscribers else None

    def notify(self, kind: ChangeKind, tab: str = "") -> None:
        """Report a change to the subscribers."""
        self._publish(TabChange(kind, tab))

    def notify_reviewed(self, revs: Mapping[str, int]) -> None:
        """Report that the reviews of files have changed."""
        self._publish(TabChange("review", revs=tuple(revs.items())))

    def _publish(self, change: TabChange) -> None:
        for callback in tuple(self._subscribers):
            callback(change)

    async def record_notice(self, message: str) -> None:
        """Add a warning to the transcript of each run in progress."""
        for tab in list(self._tabs.values()):
            with suppress(NewelError):  # the run reports that itself
                await tab.chat.record(Notice(level="warning", message=message))

    # -- tabs -------------------------------------------------------------------------------------

    @property
    def tabs(self) -> list[Tab]:
        """In the order in which they were opened."""
        return [tab.state for tab in self._tabs.values()]

    def tab(self, tab: str) -> TabSession:
        """The tab with an id. Raises ``TabServiceError``."""
        if tab not in self._tabs:
            raise TabServiceError(CLOSED)
        return self._tabs[tab]

    async def list_sessions(self, query: str = "") -> list[SessionEntry]:
        """The folder's latest sessions, or the latest of those that match a query."""
        return await anyio.to_thread.run_sync(self.factory.list_sessions, query)

    async def open_chat(
        self,
        *,
        session: str | None = None,
        model: str | None = None,
        agent_mode: AgentMode | None = None,
        approve: ApprovalMode | None = None,
        thinking: ThinkingLevel | None = None,
    ) -> TabSession:
        """A new conversation, or an earlier one from wherever it was started. One that is open already keeps its settings. Raises
        ``NewelError`` for settings that are not possible here, and then opens none.
        """
        title = NEW_CHAT
        if session is not None:
            summary = next(
                (
                    session_summary
                    # it may be older than the listed ones
                    for session_summary in await self.list_sessions(session)
                    if session_summary.id == session
                ),
                None,
            )
            if summary is None:
                raise TabServiceError(f"There is no session {session} of this folder.")
            title = summary.name or plain_line(summary.first_text, 40) or NEW_CHAT
        if tab := self._chat_of(session):
            return tab
        if approve is not None and approve != self.factory.approve:
            check_approval_change(self.factory.approve, approve, sandbox_problem=self.factory.sandbox_problem)
        if agent_mode is not None and model is None:
            model = (await self.factory.find_model(agent_mode)).id
        async with self._opening:
            return self._chat_of(session) or await self._add(
                kind="chat",
                title=title,
                session=session or new_id(),
                status="idle",
                model=model,
                agent_mode=agent_mode,
                approve=approve,
                thinking=thinking,
            )

    def _chat_of(self, session: str | None) -> TabSession | None:
        tabs = self._tabs.values()
        return next((tab for tab in tabs if tab.state.kind == "chat" and tab.state.session == session), None)

    async def open_agent(self) -> TabSession:
        """An agent without a contract yet."""
        async with self._opening:
            titles = {tab.title for tab in self.tabs}
            title = next(name for n in range(1, len(titles) + 2) if (name := f"Agent-{n}") not in titles)
            return await self._add(kind="agent", title=title, session=new_id(), status="ready")

    def _restored(self, tab: Tab, stopped_run: str | None) -> TabSession:
        """A tab of the process before. An approval mode that this one cannot give it, as it was started with another one, is dropped."""
        picked = tab.approve
        try:
            if picked is not None and picked != self.factory.approve:
                check_approval_change(
                    self.factory.approve, picked, sandbox_problem=self.factory.sandbox_problem
                )
            return TabSession(tab, self._services, stopped_run)
        except CannotChangeMode:
            session = TabSession(msgspec.structs.replace(tab, approve=None), self._services, stopped_run)
            session.chat.lost_approve = picked
            return session

    async def _add(self, **fields: Any) -> TabSession:
        tab = Tab(id=new_id(), folder=self.folder, **fields)
        await self._log.append(TabSaved(tab))
        session = self._tabs[tab.id] = TabSession(tab, self._services)
        self.notify("tabs")
        return session

    async def close(self, tab: str) -> None:
        """Remove a tab; its run is aborted and its queue cancelled. The session is kept."""
        await self.tab(tab).close()
        self._tabs.pop(tab, None)
        self.notify("tabs")

    async def default_chat(self) -> TabSession:
        """The chat of programs that know no tabs."""
        async with self._choosing_default:
            if self._log.default_chat not in self._tabs:
                tab = await self.open_chat()
                await self._log.append(TabSettings(tab.state.id))
        return self.tab(self._log.default_chat or "")

    # -- runs -------------------------------------------------------------------------------------

    async def run(self, *, slots: int = 300) -> None:
        """Run the engine's jobs, those that an earlier process left included, until cancelled. Raises what opening the review
        does.
        """
        handlers: dict[str, Handler] = {TURN: self._run_turn, CONTRACT: self._run_contract}
        async with task_group() as tasks:
            if self._open_review is not None:
                self._review = await self._open_review()
                handlers |= self._review.handlers
                self._review_opened.set()
                tasks.start_soon(self._review.watch, self.notify_reviewed)
                tasks.start_soon(self._watch_model)
            tasks.start_soon(self._watch_permissions)
            if self._monitor is not None:
                tasks.start_soon(
                    self._monitor.run, partial(self.notify, "host"), lambda: bool(self._subscribers)
                )
            await Worker(self.engine, handlers, slots=slots, failed=self._on_failure).run()

    async def _run_turn(self, lease: Lease) -> JobOutcome:
        params = msgspec.json.decode(lease.params, type=TurnParams)
        tab = self._tabs.get(params.tab)
        return await tab.run_turn(lease, params) if tab else JobOutcome(state="done", reason=CLOSED)

    async def _run_contract(self, lease: Lease) -> JobOutcome:
        params = msgspec.json.decode(lease.params, type=ContractParams)
        tab = self._tabs.get(params.tab)
        return await tab.run_contract(lease, params) if tab else JobOutcome(state="done", reason=CLOSED)

    def _on_failure(self, lease: Lease, reason: str) -> None:
        if tab := self._tabs.get(lease.queue):
            tab.fail_run(lease.job, reason)

    def renew_agents(self) -> None:
        """Let the next run of each conversation create its agent anew, from what the user trusts now."""
        for tab in self._tabs.values():
            tab.chat.renew_agent()

    # -- permissions, review, host, model ----------------------------------------------------------------------

    async def revoke(self, names: Sequence[str]) -> Sequence[str]:
        """Forget what answers have allowed in the project, by its ids; what is gone. Raises ``ConfigError``."""
        gone = await anyio.to_thread.run_sync(self.permissions.revoke, names)
        self.notify("permissions")
        return gone

    async def _watch_permissions(self) -> None:
        """Report changes of what answers have allowed, whoever makes them."""
        stamps = self.permissions.stamps
        while True:
            await anyio.sleep(PERMISSIONS_INTERVAL_S)
            if self._subscribers and (now := self.permissions.stamps) != stamps:
                stamps = now
                self.notify("permissions")

    @asynccontextmanager
    async def review(self) -> AsyncGenerator[ReviewService]:
        """The review service for a user's request, as soon as it is open. Raises ``HostUnreachable`` if that request would have
        to wait for the host.
        """
        await self._review_opened.wait()
        with self._monitor.request_deadline() if self._monitor is not None else nullcontext():
            yield self._review

    @property
    def host(self) -> HostState | None:
        """The host that the agents work on; None for this machine."""
        return self._monitor.state if self._monitor is not None else None

    @property
    def model(self) -> ModelStatus:
        model = self.factory.model
        return msgspec.structs.replace(model, problem=model.problem or self._model_silence)

    async def use_server(self, base_url: str, api_key: str | None, model: str | None) -> list[str]:
        """See ``AgentFactory.use_server``. Runs in progress keep the model that they started with."""
        names = await self.factory.use_server(base_url, api_key, model)
        if not names:
            self._model_silence = ""
            for tab in self._tabs.values():
                if tab.chat.active_agent is None:
                    tab.chat.discard_agent()
            await self._review_opened.wait()
            self._review.use_model(Model(self.factory.model.name))
            self.notify("model")
        return names

    async def _watch_model(self) -> None:
        """Probe the model's server until it answers."""
        while not self.factory.model.problem:
            before, self._model_silence = self._model_silence, await self._probe_model()
            if self._model_silence != before:
                self.notify("model")
            if not self._model_silence:
                return
            await anyio.sleep(PROBE_INTERVAL_S)

    async def _probe_model(self) -> str:
        """Why the model's server cannot be reached. One that refuses to list its models has answered."""
        try:
            with anyio.fail_after(PROBE_TIMEOUT_S):
                await self.factory.list_models()
        except ConnectionFailed as error:
            return str(error)
        except TimeoutError:
            return f"The model's server has not answered within {PROBE_TIMEOUT_S:.0f} seconds."
        except NewelError:
            pass
        return ""
