"""The page's socket: its requests go to the workbench, and the events of the tabs that it watches come back.

A *command* changes something: commands on the same tab or server are executed in their order, and to their end even if the
page goes away meanwhile. A *query* only reads, and is dropped with its reader.

Nothing is buffered here: each watched tab is read from the journal as fast as the socket takes it, and changes that come
meanwhile are sent once. The security middleware drops a reader that takes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress

import anyio
import msgspec
from anyio.abc import TaskGroup
from starlette.websockets import WebSocket, WebSocketDisconnect

from newel.agent.errors import NewelError
from newel.agent.messages import UserMessage, now
from newel.agent.ports import ThinkingLevel
from newel.concurrency import background_tasks
from newel.providers.listed_models import ModelDetails
from newel.providers.routing import read_agent_mode
from newel.runs.event_hub import delta_of
from newel.runs.models import LiveSnapshot, SequencedEvent, Snapshot, Tab
from newel.text.json import decode_json, to_json
from newel.web import protocol
from newel.web.page_login import SUBPROTOCOL
from newel.workbench.tab_reader import Frame, follow
from newel.workbench.tab_session import ChangeKind, TabSession
from newel.workbench.workbench import TabChange, Workbench
from newel.workspace.sandbox.policy import SandboxMode

MAX_REQUESTS = 32
"""Requests of one socket in progress; the next one is read when one of them is done."""
COMMAND_TIMEOUT_S = 30.0
"""Of a command, which continues when its page is gone."""
CHANGES_INTERVAL_S = 0.05
"""Between two reports of changes, each of which lists all tabs."""
MAX_PATHS = 200
"""Changed reviews that are listed by path."""

DELTA_INTERVAL_S, FAST_DELTA_INTERVAL_S = 0.008, 0.064
"""Between two pieces of text. Faster ones are joined: no reader keeps up with them, and each has its cost."""
FAST_DELTA = 16
"""Characters of a joined piece above which a text arrives faster than it can be read."""

log = logging.getLogger(__name__)


class _RequestId(msgspec.Struct):
    """The part of a malformed message that is needed to answer it."""

    id: str


_decoder = msgspec.json.Decoder(protocol.ClientMessage)
_id_decoder = msgspec.json.Decoder(_RequestId)


async def serve_socket(
    websocket: WebSocket, workbench: Workbench, info: ServerInfo, server: str, *, review: bool
) -> None:
    """Accept a socket and serve it until it is closed. ``server`` identifies this start of the server; ``review`` says whether
    it has the review API.
    """
    # browsers close a socket whose server chooses none
    is_page = SUBPROTOCOL in websocket.scope["subprotocols"]
    await websocket.accept(SUBPROTOCOL if is_page else None)
    with suppress(WebSocketDisconnect):  # raised by a send after the browser has left
        await _Socket(websocket, workbench).run(info, server, review=review)


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The server, as the page shows it. ``project`` is its folder, ``home`` the user's, ``notice`` a message about its start."""

    newel: str
    project: str
    home: str = ""
    approve: str
    thinking: ThinkingLevel = "off"
    sandbox: SandboxMode = "off"
    sandbox_problem: str = ""
    ephemeral: bool
    fleets: bool = False
    notice: str = ""


class _WatchedTab:
    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()


class _ChangedReviews:
    """The files whose reviews have changed since the last report; any file, if there are too many."""

    def __init__(self) -> None:
        self._revs: dict[str, int] = {}
        self._is_any = False

    def add(self, revs: tuple[tuple[str, int], ...]) -> None:
        self._revs.update(revs)
        if not revs or len(self._revs) > MAX_PATHS:
            self._is_any = True
            self._revs = {}

    def pop(self) -> protocol.ReviewChanged | None:
        if not self._is_any and not self._revs:
            return None
        revs, is_any = self._revs, self._is_any
        self._revs, self._is_any = {}, False
        return protocol.ReviewChanged(revs={} if is_any else revs)


class _Socket:
    def __init__(self, websocket: WebSocket, workbench: Workbench) -> None:
        self._websocket = websocket
        self._workbench = workbench
        self._writing = anyio.Lock()
        self._slots = anyio.Semaphore(MAX_REQUESTS)
        self._orders: dict[str, tuple[anyio.Lock, int]] = {}
        self._watched: dict[str, _WatchedTab] = {}
        self._changes: set[TabChange] = set()
        self._reviewed = _ChangedReviews()
        self._changed = anyio.Event()

    async def run(self, info: ServerInfo, server: str, *, review: bool) -> None:
        """Welcome the page, then serve it."""
        unsubscribe = self._workbench.watch(self._on_change)
        model = self._workbench.model
        try:
            await self._send(
                protocol.Welcome(
                    version=protocol.VERSION,
                    newel=info.newel,
                    server=server,
                    project=info.project,
                    home=info.home,
                    now=now(),
                    model=model.name,
                    approve=info.approve,
                    sandbox=info.sandbox,
                    sandbox_problem=info.sandbox_problem,
                    ephemeral=info.ephemeral,
                    fleets=info.fleets,
                    review=review,
                    tabs=self._workbench.tabs,
                    servers=self._workbench.servers.statuses(),
                    host=self._workbench.host,
                    where=model.where,
                    problem=model.problem,
                    agent_mode=model.agent_mode,
                    thinking=info.thinking,
                    notice=info.notice,
                )
            )
            async with background_tasks(self._send_changes) as tasks:
                await self._read(tasks)
        finally:
            unsubscribe()

    async def _send(self, message: protocol.ServerMessage) -> None:
        """Raises ``WebSocketDisconnect``."""
        text = to_json(message).decode()
        async with self._writing:
            await self._websocket.send({"type": "websocket.send", "text": text})

    # -- requests ---------------------------------------------------------------------------------

    async def _read(self, tasks: TaskGroup) -> None:
        while (message := await self._websocket.receive())["type"] != "websocket.disconnect":
            data: str | bytes = message.get("text") or message.get("bytes") or b""
            try:
                request = decode_json(data, _decoder)
            except msgspec.DecodeError as error:
                await self._send(_malformed_request(data, error))
                continue
            await self._slots.acquire()
            tasks.start_soon(self._answer, request, tasks)

    async def _answer(self, request: protocol.ClientMessage, tasks: TaskGroup) -> None:
        try:
            answer = await self._execute(request, tasks)
        except Exception as error:  # noqa: BLE001 — any failure is reported to the page, and the socket stays open
            answer = _failure(error, tab=getattr(request, "tab", ""), re=request.id)
        await self._send(answer)
        self._slots.release()

    async def _execute(self, request: protocol.ClientMessage, tasks: TaskGroup) -> protocol.ReplyMessage:
        if isinstance(request, protocol.Query):
            return await run_query(self._workbench, request)
        async with self._in_order(subject(request)):
            match request:
                case protocol.WatchTab():
                    return await self._watch(request, tasks)
                case protocol.Unwatch():
                    await self._unwatch(request.tab)
                    return protocol.ReplyMessage(re=request.id, tab=request.tab)
                case _:
                    with anyio.move_on_after(COMMAND_TIMEOUT_S, shield=True):
                        return await run_command(self._workbench, request)
        raise NewelError(f"The request timed out after {COMMAND_TIMEOUT_S:.0f} seconds.")

    @asynccontextmanager
    async def _in_order(self, name: str) -> AsyncGenerator[None]:
        """Requests with the same name one at a time, in their order."""
        lock, users = self._orders.get(name, (anyio.Lock(), 0))
        self._orders[name] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._orders.pop(name)
            if users > 1:
                self._orders[name] = lock, users - 1

    # -- watched tabs -----------------------------------------------------------------------------

    async def _watch(self, request: protocol.WatchTab, tasks: TaskGroup) -> protocol.ReplyMessage:
        tab = self._workbench.tab(request.tab)
        frames = follow(tab, request.run, request.after)
        await self._unwatch(request.tab)
        watching = self._watched[request.tab] = _WatchedTab()
        if request.run is not None:
            # It may get no snapshot, and no event tells what it has missed: a question answered, a message withdrawn.
            self._repeat(request.tab, "questions", "queue", "totals")
        tasks.start_soon(self._follow, tab, frames, watching)
        return protocol.ReplyMessage(re=request.id, tab=request.tab)

    def _repeat(self, tab: str, *kinds: ChangeKind) -> None:
        """Send the present state of a watched tab soon."""
        for kind in kinds:
            self._on_change(TabChange(kind, tab))

    async def _unwatch(self, tab: str) -> None:
        if watching := self._watched.pop(tab, None):
            watching.scope.cancel()
            await watching.ended.wait()

    async def _follow(self, tab: TabSession, frames: AsyncGenerator[Frame], watching: _WatchedTab) -> None:
        name = tab.state.id
        try:
            with watching.scope:
                async with aclosing(frames):
                    async for frame in frames:
                        await self._send(_as_message(name, frame))
                        if isinstance(frame, Snapshot):
                            await self._correct(tab, frame)
                        if isinstance(frame, SequencedEvent) and (piece := _delta(frame)):
                            is_fast = len(piece) > FAST_DELTA
                            await anyio.sleep(FAST_DELTA_INTERVAL_S if is_fast else DELTA_INTERVAL_S)
        except WebSocketDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 — as above
            await self._send(_failure(error, tab=name))
        finally:
            if self._watched.get(name) is watching:
                del self._watched[name]
            watching.ended.set()

    async def _correct(self, tab: TabSession, sent: Snapshot) -> None:
        """Repeat what has changed while a snapshot was read: the change may have been sent before it."""
        if sent.questions != tab.chat.questions.pending:
            self._repeat(tab.state.id, "questions")
        if sent.queue != await tab.queue.messages():
            self._repeat(tab.state.id, "queue")

    # -- changes ----------------------------------------------------------------------------------

    def _on_change(self, change: TabChange) -> None:
        if change.kind == "review":
            self._reviewed.add(change.revs)
        else:
            self._changes.add(change)
        self._changed.set()

    async def _send_changes(self) -> None:
        while True:
            await self._changed.wait()
            changes, self._changes, self._changed = self._changes, set(), anyio.Event()
            if (reviewed := self._reviewed.pop()) is not None:
                await self._send(reviewed)
            for change in changes:
                if (message := await self._message_for(change)) is not None:
                    await self._send(message)
            await anyio.sleep(CHANGES_INTERVAL_S)

    async def _message_for(self, change: TabChange) -> protocol.ServerMessage | None:
        match change.kind:
            case "tabs":
                return protocol.Tabs(tabs=self._workbench.tabs)
            case "model":
                return protocol.ModelMessage(model=self._workbench.model)
            case "permissions":
                return protocol.PermissionsChanged()
            case "servers":
                return protocol.Servers(servers=self._workbench.servers.statuses())
            case "host":
                return protocol.HostMessage(host=host) if (host := self._workbench.host) is not None else None
            case _:
                return await self._message_of_tab(change) if change.tab in self._watched else None

    async def _message_of_tab(self, change: TabChange) -> protocol.ServerMessage | None:
        try:
            tab = self._workbench.tab(change.tab)
            if change.kind == "questions":
                return protocol.QuestionsMessage(tab=change.tab, questions=tab.chat.questions.pending)
            if change.kind == "queue":
                return protocol.QueueMessage(tab=change.tab, messages=await tab.queue.messages())
            return protocol.TotalsMessage(tab=change.tab, totals=await tab.totals())
        except NewelError:  # the tab was closed meanwhile, and the list of tabs says so
            return None


async def run_query(workbench: Workbench, request: protocol.Query) -> protocol.ReplyMessage:
    match request:
        case protocol.GetHistory(tab=tab):
            messages, more = await workbench.tab(tab).history(request.before, request.limit)
            return protocol.ReplyMessage(re=request.id, tab=tab, messages=messages, more=more)
        case protocol.GetSubagent(tab=tab, session=session):
            messages = await workbench.tab(tab).chat.subagent_messages(session)
            return protocol.ReplyMessage(re=request.id, tab=tab, messages=messages)
        case protocol.GetSessions():
            sessions = [
                protocol.SessionInfo(
                    id=session.id,
                    title=session.name or session.first_text or session.id,
                    first_text=session.first_text,
                    messages=session.messages,
                    modified=session.modified,
                )
                for session in await workbench.list_sessions(request.query)
            ]
            return protocol.ReplyMessage(re=request.id, sessions=sessions)
        case protocol.GetModels():
            mode = workbench.tab(request.tab).state.agent_mode if request.tab else None
            return protocol.ReplyMessage(re=request.id, models=await workbench.factory.list_details(mode))
        case protocol.GetPrompts():
            prompts = [
                protocol.PromptInfo(
                    name=name, description=each.description, takes_arguments=each.takes_arguments
                )
                for name, each in (await workbench.factory.list_templates()).items()
            ]
            return protocol.ReplyMessage(re=request.id, prompts=prompts)
        case protocol.GetPaths():
            paths = await workbench.factory.complete_path(request.part)
            return protocol.ReplyMessage(re=request.id, paths=paths)
        case protocol.Ping():
            return protocol.ReplyMessage(re=request.id)


async def run_command(workbench: Workbench, request: protocol.Command) -> protocol.ReplyMessage:
    tab: Tab | None = None
    match request:
        case protocol.OpenChat():
            mode = read_agent_mode(request.agent_mode) if request.agent_mode else None
            opened = await workbench.open_chat(
                session=request.session,
                model=request.model,
                agent_mode=mode,
                approve=request.approve,
                thinking=request.thinking,
            )
            tab = opened.state
        case protocol.OpenAgent():
            tab = (await workbench.open_agent()).state
        case protocol.CloseTab():
            tab = workbench.tab(request.tab).state
            await workbench.close(request.tab)
        case protocol.UseServer():
            names = await workbench.use_server(request.base_url, request.api_key, request.model)
            return protocol.ReplyMessage(re=request.id, models=[ModelDetails(name) for name in names])
        case protocol.SetServer(server=server):
            if request.trusted is not None:
                await workbench.servers.set_trusted(server, request.trusted)
            if request.enabled is not None:
                await workbench.servers.set_enabled(server, request.enabled)
        case protocol.SetTool():
            await workbench.servers.set_tool(request.server, request.tool, request.enabled)
        case protocol.RestartServer():
            await workbench.servers.restart(request.server)
        case _:
            run = await _run_tab_command(workbench.tab(request.tab), request)
            return protocol.ReplyMessage(re=request.id, tab=request.tab, run=run)
    return protocol.ReplyMessage(re=request.id, tab=tab.id if tab else "")


async def _run_tab_command(tab: TabSession, request: protocol.TabCommand) -> str | None:
    """Returns the run that was started, or that will answer."""
    match request:
        case protocol.Send():
            message = UserMessage(
                content=request.text, attachments=request.attachments, id=request.message_id
            )
            return await tab.send(message, before=request.before, typed=request.typed)
        case protocol.RetryMessage():
            return await tab.retry()
        case protocol.Start():
            return await tab.start(request.contract)
        case protocol.RenameTab():
            await tab.rename(request.title)
        case protocol.SetModel():
            await tab.set_model(request.model)
        case protocol.SetAgentMode():
            await tab.set_agent_mode(read_agent_mode(request.mode))
        case protocol.SwitchBranch():
            await tab.switch_branch(request.message, before=request.before)
        case protocol.SetTabApprove():
            await tab.set_approve(request.mode)
        case protocol.SetTabThinking():
            await tab.set_thinking(request.level)
        case protocol.Withdraw():
            await tab.withdraw(request.message_id)
        case protocol.SendNow():
            await tab.send_now(request.message_id)
        case protocol.StopTab():
            await tab.stop(now=request.now)
        case protocol.AnswerQuestion():
            tab.answer(request.question, request.answer)
    return None


def subject(request: protocol.SocketRequest) -> str:
    """The thing that a command changes: commands with the same subject keep their order."""
    match request:
        case protocol.SetServer() | protocol.SetTool() | protocol.RestartServer():
            return f"server {request.server}"
        case protocol.UseServer():
            return "model"
        case protocol.OpenChat() | protocol.OpenAgent():
            return "tabs"
        case _:
            return f"tab {getattr(request, 'tab', '')}"


def _failure(error: Exception, *, tab: str, re: str = "") -> protocol.ErrorMessage:
    if isinstance(error, NewelError):
        return protocol.ErrorMessage(re=re, tab=tab, code=error.code, message=str(error))
    log.error("a request of the page failed", exc_info=error)
    message = "This request failed because of an error in Newel. The server's error output has the details."
    return protocol.ErrorMessage(re=re, tab=tab, code="internal_error", message=message)


def _malformed_request(data: str | bytes, error: Exception) -> protocol.ErrorMessage:
    try:
        request_id = decode_json(data, _id_decoder).id[:64]
    except msgspec.DecodeError:
        request_id = ""
    return protocol.ErrorMessage(
        re=request_id,
        code="malformed_message",
        message=f"This message cannot be read: {error}. `newel docs protocol` describes the messages.",
    )


def _as_message(tab: str, frame: Frame) -> protocol.ServerMessage:
    if isinstance(frame, Snapshot):
        return protocol.SnapshotMessage(tab=tab, seq=frame.seq, snapshot=frame)
    if isinstance(frame.event, LiveSnapshot):
        return protocol.SoFarMessage(tab=tab, seq=frame.seq, run=frame.run, so_far=frame.event)
    return protocol.EventMessage(tab=tab, seq=frame.seq, run=frame.run, event=frame.event)


def _delta(item: SequencedEvent) -> str:
    """The text that an event adds to a growing one."""
    return "" if isinstance(item.event, LiveSnapshot) else delta_of(item.event)[1]
