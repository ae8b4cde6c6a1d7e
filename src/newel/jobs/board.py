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

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import AppMessage, UserMessage, Wire, new_id
from newel.jobs import agent_run
from newel.jobs.agent_run import CONTRACT, ContractParams, carry_out_contract
from newel.jobs.conversation import Conversation, Crew, Heard, is_settled
from newel.jobs.engine import FINAL, Engine, Job, Lease, Outcome
from newel.jobs.events import ContractState, RunEvent
from newel.jobs.feed import Feed
from newel.jobs.tabs import Contract, Question, Snapshot, SoFar, Tab, Totals
from newel.jobs.tabstore import TabStore
from newel.jobs.turn import TURN, TurnParams, answer_turn, read_events
from newel.jobs.worker import Handler, Worker
from newel.providers.encode import to_json
from newel.session.coding_agent import totals
from newel.session.text import one_line

PAGE = 100
"""Messages that a reader gets to begin with."""
SAID = "Said in the run before."
"""Why a message's own job ends without a run."""
NEW_CHAT = "Chat"
"""The title of a chat until something is said in it."""


class BoardError(NewelError):
    """What was asked for cannot be done with this tab now."""


What = Literal["tabs", "questions", "totals", "servers"]


class Change(msgspec.Struct, frozen=True):
    """Something that a screen shows has changed: read it anew. ``tab`` is empty for the list of tabs."""

    kind: What
    tab: str = ""


class EventFrame(msgspec.Struct, frozen=True):
    """An event of a run; a fleeting one has the number of the lasting one before it."""

    run: str
    seq: int
    event: RunEvent


class SoFarFrame(msgspec.Struct, frozen=True):
    run: str
    seq: int
    so_far: SoFar


Frame = Snapshot | EventFrame | SoFarFrame


class Board:
    """The tabs of one folder, and their runs. Use ``open``.

    ``folder`` is where the agents work; logs and worktrees lie in ``home``.
    """

    def __init__(
        self, engine: Engine, feed: Feed, crew: Crew, store: TabStore, *, folder: str, home: Path
    ) -> None:
        self.engine = engine
        self.feed = feed
        self.crew = crew
        self.folder = folder
        self.home = home
        self._store = store
        self._conversations: dict[str, Conversation] = {}
        self._runs: dict[str, str] = {}
        """The latest run of each tab, by the tab's id."""
        self._live: dict[str, Tab] = dict(store.tabs)
        """The tabs with what is true of them now: state, activity, how many messages wait."""
        self._waiting: dict[str, dict[str, str]] = {}
        """The jobs of messages that wait for a run under way, by tab and message."""
        self._epochs: dict[str, int] = dict.fromkeys(store.tabs, 0)
        """How often what was said in a tab has become something else: it went back, or began anew."""
        self._news: dict[str, anyio.Event] = {tab: anyio.Event() for tab in store.tabs}
        """Set, and replaced, when a tab's latest run or its epoch is another one."""
        self._watchers: list[Callable[[Change], None]] = []

    @classmethod
    async def open(cls, engine: Engine, feed: Feed, crew: Crew, *, folder: str, home: Path) -> Self:
        """The board that an engine keeps. Raises ``EngineError``."""
        board = cls(engine, feed, crew, await TabStore.open(engine), folder=folder, home=home)
        await board.load()
        return board

    # -- what there is ----------------------------------------------------------------------------

    @property
    def tabs(self) -> list[Tab]:
        """In the order in which they were opened."""
        return list(self._live.values())

    def tab(self, tab: str) -> Tab:
        """Raises ``BoardError``."""
        if tab not in self._live:
            raise BoardError("This tab was closed.")
        return self._live[tab]

    def watch(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call ``callback`` with every change from now on; the returned function ends that."""
        self._watchers.append(callback)
        return lambda: self._watchers.remove(callback) if callback in self._watchers else None

    def questions(self, tab: str) -> list[Question]:
        """What waits for a person in a tab."""
        return self._conversation(tab).questions.waiting

    async def totals(self, tab: str) -> Totals:
        """What a tab's conversation has used."""
        conversation = self._conversation(tab)
        return self._totals(conversation, await conversation.messages())

    async def history(self, tab: str, before: str, limit: int) -> tuple[list[AppMessage], bool]:
        """Up to ``limit`` messages before message ``before``, and whether there are still earlier ones."""
        messages = await self._conversation(tab).messages()
        ids = [message.id for message in messages]
        end = ids.index(before) if before in ids else len(ids)
        start = max(0, end - limit)
        return messages[start:end], start > 0

    async def snapshot(self, tab: str) -> Snapshot:
        """Where a reader of a tab begins."""
        conversation = self._conversation(tab)
        run = self._runs.get(tab)
        if self.tab(tab).kind == "agent":
            # An agent's verdicts and checks stand in its run's journal only, so the reader gets that from its beginning.
            return Snapshot(messages=[], run=run, questions=conversation.questions.waiting)
        job = await self.engine.get(run) if run else None
        messages = await conversation.messages()
        recorder, agent = conversation.recorder, conversation.working
        if recorder is not None and agent is not None:  # nothing may be awaited from here on
            run, messages = recorder.run, agent.get_messages()
        return Snapshot(
            messages=messages[-PAGE:],
            run=run,
            seq=recorder.seq if recorder else job.seq if job else 0,
            more=len(messages) > PAGE,
            working=sorted(agent.state.pending_tool_calls) if agent else [],
            questions=conversation.questions.waiting,
            totals=self._totals(conversation, messages),
        )

    async def follow(self, tab: str, run: str | None = None, after: int = 0) -> AsyncGenerator[Frame]:
        """All that happens in a tab, across its runs, until it is closed. A reader that knows event ``after`` of the
        tab's latest ``run`` gets what came since; any other one a snapshot first, and another whenever what it has
        read is no longer what was said.
        """
        known = run is not None and run == self._runs.get(tab)
        while tab in self._live:
            if not known:
                snapshot = await self.snapshot(tab)
                yield snapshot
                run, after = snapshot.run, snapshot.seq
            epoch, known = self._epochs[tab], True
            if run is not None:
                async with aclosing(self.feed.follow(run, after)) as items:
                    async for item in items:
                        if self._epochs.get(tab) != epoch:
                            break
                        if isinstance(item, SoFar):
                            yield SoFarFrame(run, after, item)
                        else:
                            after = item.seq
                            yield EventFrame(run, item.seq, item.event)
            while self._epochs.get(tab) == epoch and self._runs.get(tab) == run:
                await self._news[tab].wait()
            known = self._epochs.get(tab) == epoch
            run, after = self._runs.get(tab), 0

    # -- tabs -------------------------------------------------------------------------------------

    async def open_chat(self, *, session: str | None = None, model: str | None = None) -> Tab:
        """A new conversation, or one that was begun before, wherever that was."""
        title = NEW_CHAT
        if session is not None:
            known = [each for each in self.crew.sessions() if each.id == session]
            if not known:
                raise BoardError(f"There is no session {session} of this folder.")
            title = known[0].name or one_line(known[0].first_text, 40) or NEW_CHAT
        for tab in self.tabs:
            if session == tab.session and tab.kind == "chat":
                return tab
        return await self._add(
            Tab(
                id=new_id(),
                kind="chat",
                title=title,
                session=session or new_id(),
                status="idle",
                model=model,
                folder=self.folder,
            )
        )

    async def open_agent(self) -> Tab:
        """An agent that waits for its contract."""
        taken = {tab.title for tab in self._live.values()}
        title = next(name for n in range(1, len(taken) + 2) if (name := f"Agent-{n}") not in taken)
        return await self._add(
            Tab(id=new_id(), kind="agent", title=title, session=new_id(), status="ready", folder=self.folder)
        )

    async def close(self, tab: str) -> None:
        """Take a tab away; what runs in it is aborted, what waits is not begun. The session stays."""
        self.tab(tab)
        await self._store.close(tab)
        for job in await self.engine.find(queue=tab, states=["queued", "running"]):
            await self.engine.cancel(job.id, "The tab was closed.")
        conversation = self._conversations.pop(tab, None)
        if conversation is not None and conversation.working is not None:
            conversation.working.abort()
        for facts in (self._live, self._runs, self._epochs, self._waiting):
            facts.pop(tab, None)
        self._news.pop(tab).set()
        self.tell("tabs")

    async def _add(self, tab: Tab) -> Tab:
        await self._store.add(tab)
        self._live[tab.id], self._epochs[tab.id], self._news[tab.id] = tab, 0, anyio.Event()
        self.tell("tabs")
        return tab

    async def rename(self, tab: str, title: str) -> None:
        self.tab(tab)
        await self._keep(tab, title=title)

    async def set_model(self, tab: str, model: str) -> None:
        """Go on with another model, from the next run on."""
        conversation = self._conversation(tab)
        await self._keep(tab, model=model)
        conversation.model = model

    # -- runs -------------------------------------------------------------------------------------

    async def send(self, tab: str, message: UserMessage, *, before: str | None = None) -> str:
        """Say something in a chat; returns the run that will answer. Saying the same message (by its id) again changes
        nothing. While a run is under way it takes the message along, or leaves it to the next.
        """
        conversation, working = self._conversation(tab), self._is_running(tab)
        if self.tab(tab).kind != "chat":
            raise BoardError("An agent works on its contract; open a chat to talk.")
        if before is not None and working:
            raise BoardError(
                "Stop the run first: it is still adding to the conversation that would be changed."
            )
        async with conversation.handing_over:
            run = await self._submit(
                tab, TURN, TurnParams(tab=tab, message=message, before=before), key=f"{tab}/{message.id}"
            )
            await self._hand_over(tab, conversation)
        if self.tab(tab).title == NEW_CHAT and (title := one_line(message.text, 40)):
            await self._keep(tab, title=title)
        self._update(tab, queued=len(self._waiting.get(tab, {})))
        return run

    async def retry(self, tab: str) -> str:
        """Go on from where the conversation stands, after a failure or a stop."""
        if self._is_running(tab):
            raise BoardError("A run is under way already.")
        if is_settled(await self._conversation(tab).messages()):
            raise BoardError("There is nothing left to answer.")
        return await self._submit(tab, TURN, TurnParams(tab=tab))

    async def start(self, tab: str, contract: Contract) -> str:
        """Set an agent to work on a contract, in a conversation of its own."""
        if self.tab(tab).kind != "agent":
            raise BoardError("A contract is for an agent; this is a chat.")
        if self._is_running(tab):
            raise BoardError("The agent is at work. Stop it first.")
        params = await agent_run.prepare(
            contract, tab=tab, project=self.folder, home=self.home, name=self.tab(tab).title
        )
        await self._begin_anew(tab, params.session, contract=contract, folder=params.folder, log=params.log)
        return await self._submit(tab, CONTRACT, params)

    async def stop(self, tab: str, *, now: bool = False) -> None:
        """End a run before its next request; ``now``: at once. Nothing happens if there is none."""
        agent = self._conversation(tab).working
        if agent is None:
            for job in await self.engine.find(queue=tab, states=["queued"]):
                await self.engine.cancel(job.id, "Stopped before it began.")
            self._ended(tab)
        elif now:
            agent.abort()
        else:
            agent.stop()

    def answer(self, tab: str, question: str, answer: dict[str, Any]) -> None:
        """Answer a question of a run. Raises ``NoSuchQuestion``."""
        self._conversation(tab).questions.answer(question, answer)

    # -- the chat of those who know no tabs -----------------------------------------------------------

    async def plain_chat(self) -> Tab:
        """The chat that is meant where none is named."""
        if self._store.plain not in self._live:
            await self._store.set_plain((await self.open_chat()).id)
        return self.tab(self._store.plain or "")

    async def clear_plain_chat(self) -> None:
        """Begin it anew; what was said stays in its session."""
        tab = await self.plain_chat()
        if self._is_running(tab.id):
            await self.stop(tab.id, now=True)
        await self._begin_anew(tab.id, new_id(), title=NEW_CHAT)

    # -- carrying out -----------------------------------------------------------------------------

    async def run(self, *, slots: int = 300) -> None:
        """Answer what was said and work on contracts, what an earlier process left included, until cancelled."""
        handlers: dict[str, Handler] = {TURN: self._answer_turn, CONTRACT: self._carry_out}
        await Worker(self.engine, handlers, slots=slots).run()

    async def load(self) -> None:
        """Learn how each tab stands from its latest run."""
        for tab in self.tabs:
            for job in await self.engine.find(queue=tab.id, limit=1):
                self._runs[tab.id] = job.id
                status, reason = await self._status_of(tab, job)
                self._live[tab.id] = msgspec.structs.replace(tab, run=job.id, status=status, reason=reason)

    async def _status_of(self, tab: Tab, job: Job) -> tuple[Any, str]:
        if job.state not in FINAL:
            return "running", ""
        if tab.kind == "chat":
            return "idle", ""
        states = [
            event for event in await read_events(self.engine, job.id) if isinstance(event, ContractState)
        ]
        last = states[-1] if states else ContractState(state="failed", reason=job.reason)
        return last.state, last.reason

    async def _answer_turn(self, lease: Lease) -> Outcome:
        params = msgspec.json.decode(lease.params, type=TurnParams)
        if params.tab not in self._live:
            return Outcome(state="done", reason="The tab was closed.")
        conversation = self._conversation(params.tab)
        self._begun(params.tab, lease.job)
        if params.message is not None:
            self._waiting.get(params.tab, {}).pop(params.message.id, None)
        try:
            begun = partial(self._begin_to_hand_over, params.tab, conversation)
            return await answer_turn(lease, params, conversation, self.engine, self.feed, begun=begun)
        finally:
            await self._let_go(params.tab, conversation)

    async def _carry_out(self, lease: Lease) -> Outcome:
        params = msgspec.json.decode(lease.params, type=ContractParams)
        if params.tab not in self._live:
            return Outcome(state="done", reason="The tab was closed.")
        conversation = self._conversation(params.tab)
        self._begun(params.tab, lease.job)
        try:
            state = await carry_out_contract(lease, params, conversation, self.engine, self.feed)
        except NewelError as error:
            self._update(params.tab, status="failed", reason=str(error))
            raise
        finally:
            conversation.forget()
        self._update(params.tab, status=state.state, reason=state.reason)
        return agent_run.outcome(state)

    async def _begin_to_hand_over(self, tab: str, conversation: Conversation) -> None:
        """Messages that waited when an earlier process died are said, too."""
        async with conversation.handing_over:
            await self._hand_over(tab, conversation)

    async def _hand_over(self, tab: str, conversation: Conversation) -> None:
        """Let the run under way take along the messages whose own runs, as yet, wait: all of them, in their order."""
        agent, waiting = conversation.working, self._waiting.setdefault(tab, {})
        if agent is None:
            return
        for job in reversed(await self.engine.find(queue=tab, kind=TURN, states=["queued"], limit=1000)):
            params = msgspec.json.decode(job.params, type=TurnParams)
            message = params.message
            if message is None or params.before is not None:
                return  # the conversation takes another course there
            if message.id in conversation.taken:
                await self.engine.cancel(job.id, SAID)
            elif message.id not in waiting:
                waiting[message.id] = job.id
                await agent.agent.queue_message(message)

    async def _let_go(self, tab: str, conversation: Conversation) -> None:
        """A run is over: messages that it took along need no run of their own."""
        waiting = self._waiting.get(tab, {})
        with anyio.CancelScope(shield=True):
            for message in conversation.taken & waiting.keys():
                await self.engine.cancel(waiting.pop(message), SAID)
        if waiting:
            waiting.clear()  # the next run is handed them anew
        else:
            self._ended(tab)

    # -- what changes -----------------------------------------------------------------------------

    def _conversation(self, tab: str) -> Conversation:
        kept = self.tab(tab)
        if tab not in self._conversations:
            self._conversations[tab] = Conversation(
                session=kept.session,
                folder=kept.folder,
                model=kept.model,
                crew=self.crew,
                changed=lambda what: self._heard(tab, what),
            )
        return self._conversations[tab]

    def _heard(self, tab: str, what: Heard) -> None:
        """Something happened in a conversation."""
        if tab not in self._live:
            return
        match what:
            case "questions":
                asks = bool(self._conversation(tab).questions.waiting)
                self._update(tab, status="waiting" if asks else "running")
                self.tell("questions", tab)
            case "said":
                self._update(tab, activity=self._live[tab].activity + 1)
                self.tell("totals", tab)
            case "branched":
                self._new_epoch(tab)

    def _is_running(self, tab: str) -> bool:
        return self.tab(tab).status in {"running", "waiting"}

    async def _submit(self, tab: str, kind: str, params: Wire, *, key: str | None = None) -> str:
        run = await self.engine.submit(kind, to_json(params), queue=tab, key=key)
        job = await self.engine.get(run)
        if not self._is_running(tab) and job is not None and job.state not in FINAL:
            self._begun(tab, run)
        return run

    def _begun(self, tab: str, run: str) -> None:
        self._runs[tab] = run
        self._update(tab, status="running", run=run, reason="", queued=len(self._waiting.get(tab, {})))
        self._wake(tab)

    def _ended(self, tab: str) -> None:
        if tab in self._live and self._live[tab].kind == "chat":
            self._update(tab, status="idle", queued=0)

    async def _begin_anew(self, tab: str, session: str, **fields: object) -> None:
        """Another conversation in the same tab."""
        await self._keep(tab, session=session, **fields)
        self._conversations.pop(tab, None)
        self._new_epoch(tab)

    async def _keep(self, tab: str, **fields: object) -> None:
        await self._store.change(tab, **fields)
        self._update(tab, **fields)

    def _update(self, tab: str, **fields: object) -> None:
        if tab in self._live:
            self._live[tab] = msgspec.structs.replace(self._live[tab], **fields)
            self.tell("tabs")

    def _new_epoch(self, tab: str) -> None:
        self._epochs[tab] += 1
        self._wake(tab)

    def _wake(self, tab: str) -> None:
        news, self._news[tab] = self._news[tab], anyio.Event()
        news.set()

    def tell(self, kind: What, tab: str = "") -> None:
        for callback in tuple(self._watchers):
            callback(Change(kind, tab))

    def _totals(self, conversation: Conversation, messages: Sequence[AppMessage]) -> Totals:
        said, judged = totals(messages), conversation.judged
        usage = said.usage + judged.usage
        known = [cost for cost in (said.cost, judged.cost) if cost is not None]
        return Totals(
            input=usage.input,
            output=usage.output,
            context=said.context,
            window=conversation.agent.window() if conversation.agent else None,
            cost=sum(known) if known else None,
        )
