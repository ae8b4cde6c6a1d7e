"""One page's socket: what it asks for goes to the workbench, and what happens in the tabs that it watches comes back.

Nothing here is kept for a reader: each watched tab is read from the log as fast as the socket takes it, and changes that
come meanwhile are told once. A reader that stands still is given up by the boundary.
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
from newel.agent.events import MessageUpdate, ToolExecutionUpdate
from newel.concurrency import background_tasks
from newel.runs.models import Snapshot
from newel.runs.run_events import RunEvent
from newel.text.json import to_json
from newel.web.ports import ServerInfo, WorkbenchPort
from newel.web.protocol import (
    VERSION,
    ClientMessage,
    ErrorMessage,
    EventMessage,
    FromServer,
    HostMessage,
    ModelMessage,
    QuestionsMessage,
    QueueMessage,
    ReplyMessage,
    ReviewChanged,
    Servers,
    SnapshotMessage,
    SocketRequest,
    SoFarMessage,
    Tabs,
    TotalsMessage,
    Unwatch,
    WatchTab,
    Welcome,
)
from newel.web.socket_handlers import COMMANDS, QUESTIONS, subject
from newel.workbench.board import EventFrame, Frame, SoFarFrame, TabChange

AT_ONCE = 32
"""Requests of one socket under way; the next one is read when one of them is done."""
COMMAND_TIME = 30.0
"""Seconds that a command may take, for it goes on when its page is gone."""
PAUSE = 0.05
"""Seconds between two tellings of changes, each of which names all tabs."""
MOST_PATHS = 200
"""Files whose reviews changed that are told by name."""

BREATH, LONG_BREATH = 0.008, 0.064
"""Seconds between two pieces of text: what comes faster than that is joined, as no eye follows it and each costs."""
FLOOD = 16
"""Characters of a joined piece from which on a text comes faster than anybody reads, and the longer breath is taken."""

log = logging.getLogger(__name__)


class _Named(msgspec.Struct):
    """As much of a message that cannot be read as is needed to answer it."""

    id: str


_decoder = msgspec.json.Decoder(ClientMessage)
_named = msgspec.json.Decoder(_Named)


async def serve_socket(
    websocket: WebSocket, board: WorkbenchPort, about: ServerInfo, server: str, *, review: bool
) -> None:
    """Accept a socket and serve it until it is closed. ``server`` names this start of the server; ``review``: there are
    reviews.
    """
    await websocket.accept()
    with suppress(WebSocketDisconnect):  # raised by a send after the browser has left
        await _Socket(websocket, board).run(about, server, review=review)


class _Watching:
    """One tab that is being read."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()


class _Reviewed:
    """The files whose reviews have changed and that were not told yet; when they are too many, any file."""

    def __init__(self) -> None:
        self._revs: dict[str, int] = {}
        self._is_any = False

    def add(self, revs: tuple[tuple[str, int], ...]) -> None:
        self._revs.update(revs)
        if not revs or len(self._revs) > MOST_PATHS:
            self._is_any = True
            self._revs = {}

    def take(self) -> ReviewChanged | None:
        if not self._is_any and not self._revs:
            return None
        revs, is_any = self._revs, self._is_any
        self._revs, self._is_any = {}, False
        return ReviewChanged(revs={} if is_any else revs)


class _Socket:
    def __init__(self, websocket: WebSocket, board: WorkbenchPort) -> None:
        self._websocket = websocket
        self._board = board
        self._writing = anyio.Lock()
        self._slots = anyio.Semaphore(AT_ONCE)
        self._orders: dict[str, tuple[anyio.Lock, int]] = {}
        self._watched: dict[str, _Watching] = {}
        self._changes: set[TabChange] = set()
        self._reviewed = _Reviewed()
        self._changed = anyio.Event()

    async def run(self, about: ServerInfo, server: str, *, review: bool) -> None:
        """Welcome the page, then serve it."""
        unsubscribe = self._board.watch(self._note)
        model = self._board.model
        try:
            await self._say(
                Welcome(
                    version=VERSION,
                    newel=about.newel,
                    server=server,
                    project=about.project,
                    model=model.name,
                    approve=about.approve,
                    ephemeral=about.ephemeral,
                    review=review,
                    tabs=self._board.tabs,
                    servers=self._board.statuses(),
                    host=self._board.host,
                    where=model.where,
                    problem=model.problem,
                    notice=about.notice,
                )
            )
            async with background_tasks(self._tell_changes) as tasks:
                await self._read(tasks)
        finally:
            unsubscribe()

    async def _say(self, message: FromServer) -> None:
        """Raises ``WebSocketDisconnect``."""
        text = to_json(message).decode()
        async with self._writing:
            await self._websocket.send({"type": "websocket.send", "text": text})

    # -- requests ---------------------------------------------------------------------------------

    async def _read(self, tasks: TaskGroup) -> None:
        while (message := await self._websocket.receive())["type"] != "websocket.disconnect":
            data: str | bytes = message.get("text") or message.get("bytes") or b""
            try:
                request = _decoder.decode(data)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                await self._say(_malformed(data, error))
                continue
            await self._slots.acquire()
            tasks.start_soon(self._answer, request, tasks)

    async def _answer(self, request: SocketRequest, tasks: TaskGroup) -> None:
        try:
            answer = await self._carry_out(request, tasks)
        except Exception as error:  # noqa: BLE001 — whatever it is, the page learns of it and the socket stays
            answer = _failure(error, tab=getattr(request, "tab", ""), re=request.id)
        await self._say(answer)
        self._slots.release()

    async def _carry_out(self, request: SocketRequest, tasks: TaskGroup) -> ReplyMessage:
        if handler := QUESTIONS.get(type(request)):
            return await handler(self._board, request)
        async with self._in_order(subject(request)):
            match request:
                case WatchTab():
                    return await self._watch(request, tasks)
                case Unwatch():
                    await self._unwatch(request.tab)
                    return ReplyMessage(re=request.id, tab=request.tab)
                case _:
                    with anyio.move_on_after(COMMAND_TIME, shield=True):
                        return await COMMANDS[type(request)](self._board, request)
        raise NewelError(f"This was given up after {COMMAND_TIME:.0f} seconds.")

    @asynccontextmanager
    async def _in_order(self, name: str) -> AsyncGenerator[None]:
        """One at a time for each name, first come first served."""
        lock, users = self._orders.get(name, (anyio.Lock(), 0))
        self._orders[name] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._orders.pop(name)
            if users > 1:
                self._orders[name] = lock, users - 1

    # -- tabs that are read -----------------------------------------------------------------------

    async def _watch(self, request: WatchTab, tasks: TaskGroup) -> ReplyMessage:
        self._board.tab(request.tab)  # raises if there is none
        await self._unwatch(request.tab)
        frames = self._board.follow(request.tab, request.run, request.after)
        watching = self._watched[request.tab] = _Watching()
        tasks.start_soon(self._follow, request.tab, frames, watching)
        return ReplyMessage(re=request.id, tab=request.tab)

    async def _unwatch(self, tab: str) -> None:
        if watching := self._watched.pop(tab, None):
            watching.scope.cancel()
            await watching.ended.wait()

    async def _follow(self, tab: str, frames: AsyncGenerator[Frame], watching: _Watching) -> None:
        try:
            with watching.scope:
                async with aclosing(frames):
                    async for frame in frames:
                        await self._say(_as_message(tab, frame))
                        if isinstance(frame, EventFrame) and (piece := _piece(frame.event)):
                            await anyio.sleep(LONG_BREATH if len(piece) > FLOOD else BREATH)
        except WebSocketDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 — as above
            await self._say(_failure(error, tab=tab))
        finally:
            if self._watched.get(tab) is watching:
                del self._watched[tab]
            watching.ended.set()

    # -- changes ----------------------------------------------------------------------------------

    def _note(self, change: TabChange) -> None:
        if change.kind == "review":
            self._reviewed.add(change.revs)
        else:
            self._changes.add(change)
        self._changed.set()

    async def _tell_changes(self) -> None:
        while True:
            await self._changed.wait()
            changes, self._changes, self._changed = self._changes, set(), anyio.Event()
            if (reviewed := self._reviewed.take()) is not None:
                await self._say(reviewed)
            for change in changes:
                if (message := await self._news(change)) is not None:
                    await self._say(message)
            await anyio.sleep(PAUSE)

    async def _news(self, change: TabChange) -> FromServer | None:
        if change.kind == "tabs":
            return Tabs(tabs=self._board.tabs)
        if change.kind == "model":
            return ModelMessage(model=self._board.model)
        if change.kind == "servers":
            return Servers(servers=self._board.statuses())
        if change.kind == "host":
            return HostMessage(host=host) if (host := self._board.host) is not None else None
        if change.tab not in self._watched:
            return None
        try:
            if change.kind == "questions":
                return QuestionsMessage(tab=change.tab, questions=self._board.questions(change.tab))
            if change.kind == "queue":
                return QueueMessage(tab=change.tab, messages=await self._board.queue(change.tab))
            return TotalsMessage(tab=change.tab, totals=await self._board.totals(change.tab))
        except NewelError:
            return None  # the tab was closed meanwhile; the list of tabs says so


def _failure(error: Exception, *, tab: str, re: str = "") -> ErrorMessage:
    if isinstance(error, NewelError):
        return ErrorMessage(re=re, tab=tab, code=error.code, message=str(error))
    log.error("a request of the page failed", exc_info=error)
    words = "Newel failed while doing this. What happened stands where the server writes its errors."
    return ErrorMessage(re=re, tab=tab, code="internal_error", message=words)


def _malformed(data: str | bytes, error: Exception) -> ErrorMessage:
    try:
        name = _named.decode(data).id[:64]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        name = ""
    return ErrorMessage(
        re=name,
        code="malformed_message",
        message=f"This message cannot be read: {error}. See docs/protocol.md.",
    )


def _as_message(tab: str, frame: Frame) -> FromServer:
    match frame:
        case Snapshot():
            return SnapshotMessage(tab=tab, seq=frame.seq, snapshot=frame)
        case EventFrame(run, seq, event):
            return EventMessage(tab=tab, seq=seq, run=run, event=event)
        case SoFarFrame(run, seq, so_far):
            return SoFarMessage(tab=tab, seq=seq, run=run, so_far=so_far)


def _piece(event: RunEvent) -> str:
    """What an event adds to a text that grows."""
    match event:
        case MessageUpdate(assistant_message_event=delta):
            return delta.delta
        case ToolExecutionUpdate():
            return event.delta
        case _:
            return ""
