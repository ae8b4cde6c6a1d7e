"""One open tab: what is true of it now, its conversation, and what its readers are given."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Literal

import anyio
import msgspec

from newel.agent.events import AgentEnd, ErrorEvent, MessageEnd, Retry
from newel.agent.messages import AppMessage
from newel.jobs.engine import FINAL, Engine, Job
from newel.runs.chat_queue import MAX_WAITING, ChatQueue
from newel.runs.chat_session import AgentFactory, ChatSession, Heard
from newel.runs.event_hub import EventHub
from newel.runs.models import LiveSnapshot, RunReport, Snapshot, Tab, TabTotals
from newel.runs.run_events import ContractState, Notice, RunEvent, decode
from newel.runs.unsaved_messages import find_unsaid
from newel.session.coding_agent import totals

PAGE = 100
"""Messages that a reader gets to begin with."""
TELLING = (Retry, Notice, ErrorEvent, AgentEnd)
"""What a chat's run tells besides its messages."""

What = Literal["tabs", "questions", "totals", "queue", "servers", "host", "model"]
Tell = Callable[[What, str], None]
"""Says what has changed: the list of tabs, or something of the tab that is named."""


class EventFrame(msgspec.Struct, frozen=True):
    """An event of a run; a fleeting one has the number of the lasting one before it."""

    run: str
    seq: int
    event: RunEvent


class SoFarFrame(msgspec.Struct, frozen=True):
    run: str
    seq: int
    so_far: LiveSnapshot


Frame = Snapshot | EventFrame | SoFarFrame


class TabSession:
    """``tab`` is shown as it stands here; ``queue`` has the messages that wait for a run."""

    def __init__(self, tab: Tab, engine: Engine, feed: EventHub, crew: AgentFactory, tell: Tell) -> None:
        self.tab = tab
        self.queue = ChatQueue(engine, tab.id)
        self._engine = engine
        self._feed = feed
        self._crew = crew
        self._tell = tell
        self._epoch = 0
        """How often what was said has become something else: it went back, or began anew."""
        self._closed = False
        self._news = anyio.Event()
        """Set, and replaced, when the latest run or the epoch is another one, or the tab was closed."""
        self.conversation = self._converse()

    async def load(self) -> None:
        """Learn from the latest run how the tab stands."""
        for job in await self._latest():
            state = await self._state_after(job)
            self.tab = msgspec.structs.replace(self.tab, run=job.id, status=state.state, reason=state.reason)
            if self.tab.kind == "chat" and state.state != "running":
                self.tab = msgspec.structs.replace(self.tab, status="idle", reason="")

    async def _latest(self) -> list[Job]:
        """The latest run, if there was one: neither a message that is held, nor one that another run took along."""
        for limit in (1, MAX_WAITING):  # the jobs come with their messages, attachments and all
            jobs = await self._engine.find(queue=self.tab.id, limit=limit)
            if found := [
                job for job in jobs if job.state != "waiting" and (job.seq or job.state != "cancelled")
            ]:
                return found[:1]
        return []

    async def _state_after(self, job: Job) -> ContractState:
        if job.state not in FINAL:
            return ContractState(state="running")
        last = await self._engine.read(job.id, max(0, job.seq - 5)) if self.tab.kind == "agent" else []
        states = [event for entry in last if isinstance(event := decode(entry.data), ContractState)]
        if not states or states[-1].state == "running":  # it was given up
            return ContractState(state="failed", reason=job.reason)
        return states[-1]

    # -- what is true now ---------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self.tab.status in {"running", "waiting"}

    def update(self, **fields: object) -> None:
        self.tab = msgspec.structs.replace(self.tab, **fields)
        self._tell("tabs", "")

    def begun(self, run: str) -> None:
        """Its latest run is this one."""
        self.queue.run = run
        self.update(status="running", run=run, reason="", queued=len(self.queue.handed))
        self._wake()

    def begin_anew(self, **fields: object) -> None:
        """Another conversation takes this one's place; what still runs of that ends without being seen."""
        self.update(**fields)
        self.conversation = self._converse()
        self._new_epoch()

    def close(self) -> None:
        """Send the readers away."""
        self._closed = True
        self._wake()

    def _converse(self) -> ChatSession:
        def changed(what: Heard) -> None:
            if conversation is self.conversation and not self._closed:
                self._heard(what)

        tab = self.tab
        conversation = ChatSession(
            session=tab.session, folder=tab.folder, model=tab.model, crew=self._crew, changed=changed
        )
        return conversation

    def _heard(self, what: Heard) -> None:
        match what:
            case "questions":
                self.update(status="waiting" if self.conversation.questions.waiting else "running")
                self._tell("questions", self.tab.id)
            case "said":
                self.update(activity=self.tab.activity + 1)
                self._tell("totals", self.tab.id)
                if self.queue.handed:
                    self._tell("queue", self.tab.id)
            case "branched":
                self._new_epoch()

    def _new_epoch(self) -> None:
        self._epoch += 1
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    # -- what was said --------------------------------------------------------------------------------

    async def messages(self) -> list[AppMessage]:
        """What was said, and what was taken but could not be kept because its run failed."""
        return await self.conversation.messages(await self.unsaid())

    async def unsaid(self) -> list[AppMessage]:
        """What the conversation's session may lack."""
        return await find_unsaid(self._engine, self.tab.id, self.tab.session)

    def totals(self, messages: list[AppMessage]) -> TabTotals:
        """What the conversation has used, its judges included."""
        said, judged = totals(messages), self.conversation.judged
        usage = said.usage + judged.usage
        known = [cost for cost in (said.cost, judged.cost) if cost is not None]
        agent = self.conversation.agent
        return TabTotals(
            input=usage.input,
            output=usage.output,
            context=said.context,
            window=agent.window() if agent else None,
            cost=sum(known) if known else None,
        )

    # -- readers --------------------------------------------------------------------------------------

    async def snapshot(self) -> Snapshot:
        """Where a reader begins."""
        if self.tab.kind == "agent":
            # Verdicts and checks stand in the run's journal only, so the reader gets that from its beginning.
            return Snapshot(messages=[], run=self.tab.run, questions=self.conversation.questions.waiting)
        while True:
            run, was_working, said = self.tab.run, self.conversation.working is not None, self.tab.activity
            job = await self._engine.get(run) if run else None
            queue = await self.queue.messages(self.conversation)
            messages = await self.messages()
            recorder, agent = self.conversation.recorder, self.conversation.working
            if recorder is not None and agent is not None:  # nothing may be awaited from here on
                run, messages = recorder.run, agent.get_messages()
                break
            if not was_working and (run, said) == (self.tab.run, self.tab.activity):
                break  # else what was read is of several moments
        questions = self.conversation.questions.waiting
        seq = recorder.seq if recorder else job.seq if job else 0
        snapshot = Snapshot(
            messages=messages[-PAGE:],
            run=run,
            seq=seq,
            queue=[each for each in queue if each.message.id not in self.conversation.taken],
            more=len(messages) > PAGE,
            working=sorted(agent.state.pending_tool_calls) if agent else [],
            questions=questions,
            totals=self.totals(messages),
        )
        return msgspec.structs.replace(snapshot, told=await self._told(snapshot)) if run else snapshot

    async def _told(self, snapshot: Snapshot) -> list[RunReport]:
        """What the run of a snapshot tells besides its messages, up to there."""
        ids = ["", *(message.id for message in snapshot.messages)]
        told: list[RunReport] = []
        after: str | None = None  # none of the run's messages was said yet
        seq = 0
        while page := await self._engine.read(snapshot.run or "", seq):
            for entry in page:
                event = decode(entry.data)
                if isinstance(event, MessageEnd):
                    if after is None and event.message.id in ids:
                        before = ids[ids.index(event.message.id) - 1]
                        told = [msgspec.structs.replace(each, after=before) for each in told]
                    after = event.message.id
                elif isinstance(event, TELLING) and entry.seq <= snapshot.seq:
                    told.append(RunReport(after=ids[-1] if after is None else after, event=event))
            seq = page[-1].seq
        return [each for each in told if each.after in ids]

    async def follow(self, run: str | None, after: int) -> AsyncGenerator[Frame]:
        """All that happens here; see ``TabService.follow``."""
        known = run is not None and run == self.tab.run
        while not self._closed:
            if not known:
                snapshot = await self.snapshot()
                yield snapshot
                run, after = snapshot.run, snapshot.seq
            epoch = self._epoch
            if run is not None:
                async with aclosing(self._feed.follow(run, after)) as items:
                    async for item in items:
                        if self._epoch != epoch or self._closed:
                            break
                        if isinstance(item, LiveSnapshot):
                            yield SoFarFrame(run, after, item)
                        else:
                            after = item.seq
                            yield EventFrame(run, item.seq, item.event)
            while self._epoch == epoch and self.tab.run == run and not self._closed:
                await self._news.wait()
            known = self._epoch == epoch
            run, after = self.tab.run, 0
