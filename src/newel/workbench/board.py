"""The workbench without its screen: tabs, what is said in them, and the runs that answer.

    board = await Board.open(engine, feed, crew, folder=…, home=…)
    async with create_task_group() as tasks:
        tasks.start_soon(board.run)
        tab = await board.open_chat()
        run = await board.send(tab.id, UserMessage(content="Fix the bug in server.py"))
        async for frame in board.follow(tab.id):
            …

What a method acknowledges is durable: a message that ``send`` took is answered, if need be by the next process. The tabs
themselves are the fold of a journal too, that of one job which never ends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import AppMessage, UserMessage, Wire, new_id
from newel.contracts import contract_job
from newel.contracts.contract_job import CONTRACT, ContractParams, carry_out_contract
from newel.jobs.engine import FINAL, Engine, JobOutcome, Lease
from newel.jobs.worker import Handler, Worker
from newel.runs.chat_queue import is_held, key_of
from newel.runs.chat_session import AgentFactory, is_settled
from newel.runs.chat_turn import TURN, TurnParams, answer_turn
from newel.runs.event_hub import EventHub
from newel.runs.models import Contract, QueuedMessage, Snapshot, Tab, TabQuestion, TabTotals
from newel.session.listing import SessionSummary
from newel.text.json import to_json
from newel.text.sanitize import plain_line
from newel.workbench.open_tab import EventFrame, Frame, SoFarFrame, TabSession, What
from newel.workbench.tab_store import TabStore

__all__ = ["EventFrame", "Frame", "SoFarFrame", "TabChange", "TabService", "TabServiceError"]

NEW_CHAT = "Chat"
"""The title of a chat until something is said in it."""
CLOSED = "The tab was closed."
GONE = JobOutcome(state="done", reason=CLOSED)


class TabServiceError(NewelError, code="board_error"):
    """What was asked for cannot be done with this tab now."""


class TabChange(msgspec.Struct, frozen=True):
    """Something that a screen shows has changed: read it anew. ``tab`` is empty where it belongs to none. Of reviews, ``revs``
    are the files with their revisions; none of them stands for any file.
    """

    kind: What | Literal["review"]
    tab: str = ""
    revs: tuple[tuple[str, int], ...] = ()


class TabService:
    """The tabs of one folder, and their runs. Use ``open``.

    ``folder`` is where the agents work; logs lie in ``home``.
    """

    def __init__(
        self, engine: Engine, feed: EventHub, crew: AgentFactory, store: TabStore, *, folder: str, home: Path
    ) -> None:
        self.engine = engine
        self.feed = feed
        self.crew = crew
        self.folder = folder
        self.home = home
        self._store = store
        self._watchers: list[Callable[[TabChange], None]] = []
        self._open = {tab.id: self._opened(tab) for tab in store.tabs.values()}
        self.handlers: dict[str, Handler] = {TURN: self._answer_turn, CONTRACT: self._carry_out}
        """Who carries out the jobs of the engine, by their kind. Others may be put in before ``run``."""

    @classmethod
    async def open(
        cls, engine: Engine, feed: EventHub, crew: AgentFactory, *, folder: str, home: Path
    ) -> Self:
        """The board that an engine keeps. Raises ``EngineError``."""
        board = cls(engine, feed, crew, await TabStore.open(engine), folder=folder, home=home)
        for each in board._open.values():
            await each.load()
        return board

    def _opened(self, tab: Tab) -> TabSession:
        return TabSession(tab, self.engine, self.feed, self.crew, self.tell)

    # -- what there is ----------------------------------------------------------------------------

    @property
    def tabs(self) -> list[Tab]:
        """In the order in which they were opened."""
        return [each.tab for each in self._open.values()]

    def tab(self, tab: str) -> Tab:
        """Raises ``TabServiceError``."""
        return self._of(tab).tab

    def watch(self, callback: Callable[[TabChange], None]) -> Callable[[], None]:
        """Call ``callback`` with every change from now on; the returned function ends that."""
        self._watchers.append(callback)
        return lambda: self._watchers.remove(callback) if callback in self._watchers else None

    def tell(self, kind: What, tab: str = "") -> None:
        """Let those who watch know of a change."""
        self._tell(TabChange(kind, tab))

    def tell_reviewed(self, revs: Mapping[str, int]) -> None:
        """Let them know that the reviews of files have changed."""
        self._tell(TabChange("review", revs=tuple(revs.items())))

    def _tell(self, change: TabChange) -> None:
        for callback in tuple(self._watchers):
            callback(change)

    def questions(self, tab: str) -> list[TabQuestion]:
        """What waits for a person in a tab."""
        return self._of(tab).conversation.questions.waiting

    async def totals(self, tab: str) -> TabTotals:
        """What a tab's conversation has used."""
        one = self._of(tab)
        return one.totals(await one.conversation.messages())

    async def history(self, tab: str, before: str, limit: int) -> tuple[list[AppMessage], bool]:
        """Up to ``limit`` messages before message ``before``, and whether there are still earlier ones."""
        messages = await self._of(tab).messages()
        ids = [message.id for message in messages]
        end = ids.index(before) if before in ids else len(ids)
        start = max(0, end - limit)
        return messages[start:end], start > 0

    async def snapshot(self, tab: str) -> Snapshot:
        """How a tab stands: where a reader begins."""
        return await self._of(tab).snapshot()

    def follow(self, tab: str, run: str | None = None, after: int = 0) -> AsyncGenerator[Frame]:
        """All that happens in a tab, across its runs, until it is closed. A reader that knows event ``after`` of the
        tab's latest ``run`` gets what came since; any other one a snapshot first, and another whenever what it has
        read is no longer what was said.
        """
        return self._of(tab).follow(run, after)

    async def sessions(self) -> list[SessionSummary]:
        """The folder's sessions, the latest first."""
        return await anyio.to_thread.run_sync(self.crew.sessions)

    def _of(self, tab: str) -> TabSession:
        if tab not in self._open:
            raise TabServiceError("This tab was closed.")
        return self._open[tab]

    # -- tabs -------------------------------------------------------------------------------------

    async def open_chat(self, *, session: str | None = None, model: str | None = None) -> Tab:
        """A new conversation, or one that was begun before, wherever that was."""
        title = NEW_CHAT
        if session is not None:
            known = [each for each in await self.sessions() if each.id == session]
            if not known:
                raise TabServiceError(f"There is no session {session} of this folder.")
            title = known[0].name or plain_line(known[0].first_text, 40) or NEW_CHAT
        for tab in self.tabs:
            if session == tab.session and tab.kind == "chat":
                return tab
        return await self._add(
            kind="chat", title=title, session=session or new_id(), status="idle", model=model
        )

    async def open_agent(self) -> Tab:
        """An agent that waits for its contract."""
        taken = {tab.title for tab in self.tabs}
        title = next(name for n in range(1, len(taken) + 2) if (name := f"Agent-{n}") not in taken)
        return await self._add(kind="agent", title=title, session=new_id(), status="ready")

    async def _add(self, **fields: Any) -> Tab:
        tab = Tab(id=new_id(), folder=self.folder, **fields)
        await self._store.add(tab)
        self._open[tab.id] = self._opened(tab)
        self.tell("tabs")
        return tab

    async def close(self, tab: str) -> None:
        """Take a tab away; what runs in it is aborted, what waits is not begun. The session stays."""
        one = self._of(tab)
        await self._store.close(tab)
        while jobs := await self.engine.find(queue=tab, states=["queued", "waiting"]):
            for job in jobs:
                await self.engine.cancel(job.id, CLOSED)
        for job in await self.engine.find(queue=tab, states=["running"]):
            await self.engine.cancel(job.id, CLOSED)
        one.conversation.stop(now=True)
        one.close()
        self._open.pop(tab, None)
        self.tell("tabs")

    async def rename(self, tab: str, title: str) -> None:
        await self._keep(self._of(tab), title=title)

    async def set_model(self, tab: str, model: str) -> None:
        """Go on with another model, from the next run on."""
        one = self._of(tab)
        await self._keep(one, model=model)
        one.conversation.model = model

    async def _keep(self, one: TabSession, **fields: object) -> None:
        await self._store.change(one.tab.id, **fields)
        one.update(**fields)

    # -- runs -------------------------------------------------------------------------------------

    async def send(self, tab: str, message: UserMessage, *, before: str | None = None) -> str:
        """Say something in a chat; returns the run that will answer. Saying the same message (by its id) again changes
        nothing. While a run is under way it takes the message along, or leaves it to the next.
        """
        one = self._of(tab)
        if one.tab.kind != "chat":
            raise TabServiceError("An agent works on its contract; open a chat to talk.")
        if before is not None and one.is_running:
            raise TabServiceError(
                "Stop the run first: it is still adding to the conversation that would be changed."
            )
        if before is not None:
            said = {each.id for each in await one.messages()}
            if before not in said and message.id not in said:
                raise TabServiceError(
                    "The message that this one is to replace is no longer part of the conversation."
                )
        async with one.conversation.handing_over:
            params = TurnParams(tab=tab, session=one.tab.session, message=message, before=before)
            run = await self._submit(one, TURN, params, key=key_of(tab, message))
            await one.queue.hand_over(one.conversation)
        if one.tab.title == NEW_CHAT and (title := plain_line(message.text, 40)):
            await self._keep(one, title=title)
        self._queue_changed(one)
        return run

    async def queue(self, tab: str) -> list[QueuedMessage]:
        """The messages of a chat that no run has taken yet."""
        one = self._of(tab)
        return await one.queue.messages(one.conversation)

    async def withdraw(self, tab: str, message: str) -> None:
        """Take back a message that no run has taken yet."""
        one = self._of(tab)
        async with one.conversation.handing_over:
            is_done = await one.queue.withdraw(message, one.conversation)
        self._queue_changed(one)
        if not is_done:
            raise TabServiceError("This message does not wait any more: it was sent or withdrawn.")

    async def send_now(self, tab: str, message: str) -> None:
        """Send a held message; or end the run under way at once, so that what waits for it is answered, in its order."""
        one = self._of(tab)
        async with one.conversation.handing_over:
            job = await one.queue.find(message)
            if job is None or message in one.conversation.taken:
                raise TabServiceError("This message does not wait any more: it was sent or withdrawn.")
            was_held = is_held(job)
            await one.queue.release(message)
            if one.is_running and was_held:
                await one.queue.hand_over(one.conversation)
            elif one.is_running:
                one.conversation.stop(now=True)
        self._queue_changed(one)

    def _queue_changed(self, one: TabSession) -> None:
        one.update(queued=len(one.queue.handed))
        self.tell("queue", one.tab.id)

    async def retry(self, tab: str) -> str:
        """Go on from where the conversation stands, after a failure or a stop; messages that are held are sent."""
        one = self._of(tab)
        if one.is_running:
            raise TabServiceError("A run is under way already.")
        after = one.tab.run
        if is_settled(await one.messages()):
            released = await one.queue.release()
            self._queue_changed(one)
            if not released:
                raise TabServiceError("There is nothing left to answer.")
            return released[0]
        # Asked for twice at once, it is the same run: both follow the same one.
        params = TurnParams(tab=tab, session=one.tab.session)
        return await self._submit(one, TURN, params, key=f"{tab}/after/{after}")

    async def start(self, tab: str, contract: Contract) -> str:
        """Set an agent to work on a contract, in a conversation of its own."""
        one = self._of(tab)
        if one.tab.kind != "agent":
            raise TabServiceError("A contract is for an agent; this is a chat.")
        if one.is_running:
            raise TabServiceError("The agent is at work. Stop it first.")
        contract, before = self.crew.capped(contract), one.tab
        one.update(status="running", reason="")  # from now on nobody else can start it
        try:
            params = await contract_job.prepare(
                contract, self.crew, tab=tab, project=self.folder, home=self.home, name=one.tab.title
            )
            kept = {
                "contract": contract,
                "session": params.session,
                "folder": params.folder,
                "log": params.log,
            }
            await self._store.change(tab, **kept)
            one.begin_anew(**kept, run=None)
            run = await self.engine.submit(CONTRACT, to_json(params), queue=tab)
        except BaseException:
            one.update(status=before.status, reason=before.reason)
            raise
        one.begun(run)
        return run

    async def stop(self, tab: str, *, now: bool = False) -> None:
        """End a run before its next request; ``now``: at once. Messages that wait for it are held. Both hold for a process that
        goes on after this one, too. Nothing happens if there is no run.
        """
        one = self._of(tab)
        if not one.is_running:
            return
        async with one.conversation.handing_over:
            try:
                await one.queue.hold()
                if one.tab.run is not None:
                    await self._store.stop(tab, one.tab.run)
            finally:  # also where the disk is full
                if agent := one.conversation.working:
                    agent.clear_queue()
                one.conversation.stop(now=now)
        self.tell("queue", tab)

    def answer(self, tab: str, question: str, answer: dict[str, Any]) -> None:
        """Answer a question of a run. Raises ``NoSuchQuestion``."""
        self._of(tab).conversation.questions.answer(question, answer)

    async def _submit(self, one: TabSession, kind: str, params: Wire, *, key: str) -> str:
        run = await self.engine.submit(kind, to_json(params), queue=one.tab.id, key=key)
        job = await self.engine.get(run)
        if not one.is_running and job is not None and job.state not in FINAL:
            one.begun(run)
        return run

    # -- the chat of those who know no tabs -----------------------------------------------------------

    async def plain_chat(self) -> Tab:
        """The chat that is meant where none is named."""
        if self._store.plain not in self._open:
            await self._store.set_plain((await self.open_chat()).id)
        return self.tab(self._store.plain or "")

    async def clear_plain_chat(self) -> None:
        """Begin it anew; what was said stays in its session."""
        one = self._of((await self.plain_chat()).id)
        await one.queue.clear("The conversation was begun anew.")
        one.queue.handed.clear()
        one.conversation.stop(now=True)
        fields = {"session": new_id(), "title": NEW_CHAT}
        await self._store.change(one.tab.id, **fields)
        one.begin_anew(**fields, run=None, status="idle")

    # -- carrying out -----------------------------------------------------------------------------

    async def run(self, *, slots: int = 300) -> None:
        """Carry out what there is to do, what an earlier process left included, until cancelled."""
        await Worker(self.engine, self.handlers, slots=slots, failed=self._failed).run()

    async def _answer_turn(self, lease: Lease) -> JobOutcome:
        params = msgspec.json.decode(lease.params, type=TurnParams)
        one = self._open.get(params.tab)
        if one is None:
            return GONE
        one.begun(lease.job)
        if params.message is not None:
            one.queue.handed.pop(params.message.id, None)
        self.tell("queue", params.tab)
        conversation = one.conversation
        begun = partial(self._begin_to_hand_over, one, lease.job, releases=params.message is None)
        try:
            unsaid = await one.unsaid()
            return await answer_turn(
                lease, params, conversation, self.engine, self.feed, unsaid=unsaid, begun=begun
            )
        finally:
            if conversation is one.conversation:
                await self._let_go(one)

    async def _carry_out(self, lease: Lease) -> JobOutcome:
        params = msgspec.json.decode(lease.params, type=ContractParams)
        one = self._open.get(params.tab)
        if one is None:
            return GONE
        one.begun(lease.job)
        one.conversation.stop_asked = self._store.stopped.get(params.tab) == lease.job
        try:
            state = await carry_out_contract(lease, params, one.conversation, self.engine, self.feed)
        finally:
            one.conversation.forget()
        one.update(status=state.state, reason=state.reason)
        return contract_job.outcome(state)

    def _failed(self, lease: Lease, reason: str) -> None:
        """A tab's run ended before its handler could say how, if it came to one at all."""
        one = self._open.get(lease.queue)
        if one is None or one.tab.run != lease.job:
            return
        if one.tab.kind == "agent":
            one.update(status="failed", reason=reason)
        else:
            one.update(status="idle", queued=0)

    async def _begin_to_hand_over(self, one: TabSession, run: str, *, releases: bool) -> None:
        """Messages that waited when an earlier process died are said, too; those that are held if the run ``releases``
        them, which goes on after a stop. A run that was stopped when that process died says nothing more.
        """
        if self._store.stopped.get(one.tab.id) == run:
            one.conversation.stop_asked = True
            return
        async with one.conversation.handing_over:
            if releases:
                await one.queue.release()
            await one.queue.hand_over(one.conversation)
        self._queue_changed(one)

    async def _let_go(self, one: TabSession) -> None:
        """A run is over."""
        follows = False
        with anyio.CancelScope(shield=True):
            follows = await one.queue.let_go(one.conversation)
        if not follows:
            one.update(status="idle", queued=0)
        self.tell("queue", one.tab.id)
