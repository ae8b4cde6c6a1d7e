"""The turns of a chat as jobs: a message is answered, if need be by a later process than the one that accepted it.

Each message has a job of its own in the tab's queue. Until a run has taken the message, it is pending (and forwarded to the
run in progress) or held: its job then waits for the user, also over a restart, until the message is sent or withdrawn. The
job is cancelled once a run has taken its message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile

import anyio
import msgspec

from newel.agent.errors import NewelError, WorkspaceError
from newel.agent.events import AgentEnd, ErrorEvent, MessageEnd
from newel.agent.messages import AppMessage, UserMessage, Wire
from newel.jobs.engine import Engine, EngineError, Job, JobCancelled, JobOutcome, Lease, LeaseLost
from newel.runs.chat_session import ChatSession, is_settled
from newel.runs.event_hub import EventHub, JournalWriter
from newel.runs.models import QueuedMessage
from newel.runs.run_events import Notice, RunEvent, decode
from newel.session.coding_agent import CodingAgent
from newel.session.typed_prompt import expand_typed
from newel.text.json import to_json

TURN = "turn"
STOPPED = "Stopped before the first request."
STOPPED_MIDWAY = "Stopped before the next request."
MAX_FAILED_RUNS = 100
"""Failed runs in which unsaved messages are looked for."""
TAKEN = "The run before took this message."
"""Why a message's own job ends without a run."""
WITHDRAWN = "Withdrawn by the user."
HELD = "Held, because the run before was stopped."
MAX_PENDING = 1000
"""Queued messages of one tab that are read together."""


class TurnParams(Wire, frozen=True, kw_only=True):
    """``message`` is None if the conversation continues without a new one. With ``before`` it first goes back to just
    before that message. ``session`` is the conversation of the message: the tab may have started another since. ``typed``: the message
    may name files and templates, which are read when a run takes it.
    """

    tab: str
    session: str
    message: UserMessage | None = None
    before: str | None = None
    typed: bool = False


async def read_events(engine: Engine, job: str) -> list[RunEvent]:
    """All events of a journal so far."""
    events: list[RunEvent] = []
    seq = 0
    while page := await engine.read(job, seq):
        events += [decode(entry.data) for entry in page]
        seq = page[-1].seq
    return events


async def run_turn(
    lease: Lease,
    params: TurnParams,
    chat: ChatSession,
    engine: Engine,
    hub: EventHub,
    *,
    unsaved: Sequence[AppMessage] = (),
    on_start: Callable[[], Awaitable[None]],
) -> JobOutcome:
    """Run a turn, or the rest of one that an earlier process left. Each message is added once, by its id, after the
    ``unsaved`` ones; ``on_start`` is awaited when the conversation has its agent.
    """
    earlier = await read_events(engine, lease.job) if lease.seq else []
    # A run that the process before aborted as it shut down is resumed; any other end is final.
    if endings := [event for event in earlier if isinstance(event, AgentEnd) and event.reason != "aborted"]:
        return outcome(endings[-1])
    journal = JournalWriter(engine, lease, hub)
    try:
        async with chat.run(journal, earlier, unsaved) as agent:
            await on_start()
            return outcome(await _answer(agent, chat, params, journal))
    except (LeaseLost, JobCancelled, EngineError):
        raise
    except NewelError as error:
        if not journal.ended:  # the run could not start: another program has the session, say
            recorded = {event.message.id for event in earlier if isinstance(event, MessageEnd)}
            if params.message is not None and params.message.id not in recorded | chat.delivered:
                await journal(MessageEnd(message=params.message))
            await journal(ErrorEvent(code=error.code, message=str(error)))
            await journal(AgentEnd(reason="error", message=str(error)))
        return JobOutcome(state="failed", reason=str(error))


def outcome(end: AgentEnd) -> JobOutcome:
    """The outcome of a job whose run ended so."""
    return JobOutcome(state="failed" if end.reason == "error" else "done", reason=end.message)


async def _answer(
    agent: CodingAgent, chat: ChatSession, params: TurnParams, journal: JournalWriter
) -> AgentEnd:
    message = params.message
    tree = {entry.id: entry for entry in agent.session.get_tree()}
    is_new = message is not None and message.id not in tree
    if chat.stop_requested:
        if message is not None and is_new:
            await agent.append_message(message)
        end = AgentEnd(reason="stopped", message=STOPPED if is_new else STOPPED_MIDWAY)
        await journal(end)
        return end
    if message is None or not is_new:
        if not is_settled(agent.state.messages):
            return await agent.answer([])
        end = AgentEnd(reason="done")
        await journal(end)
        return end
    if params.before in tree:
        chat.branch(tree[params.before].parent_id)
    if params.typed:
        message = await _read_typed(agent, message, chat)
    end = await agent.answer([message])
    if message.id not in chat.delivered:  # the run was stopped before it took the message
        await agent.append_message(message)
    return end


async def _read_typed(agent: CodingAgent, message: UserMessage, chat: ChatSession) -> UserMessage:
    """A message with the files and the template that it names. Raises ``WorkspaceError`` for a template that is not used."""
    text, attachments, notes = await expand_typed(agent, message.text)
    for note in notes:
        await chat.record(Notice(level="warning", message=note))
    content = message.content if isinstance(message.content, list) else text
    return msgspec.structs.replace(message, content=content, attachments=[*message.attachments, *attachments])


async def find_unsaved(engine: Engine, tab: str, session: str) -> list[AppMessage]:
    """The messages of a conversation's runs that failed since its last good one, in their order. Its session may lack some,
    if it could not be opened or written then: another program had it, or the disk was full.
    """
    messages: list[AppMessage] = []
    for job in reversed(await _failed_runs(engine, tab)):
        params = msgspec.json.decode(job.params, type=TurnParams)
        if params.session == session:
            recorded = [
                event.message for event in await read_events(engine, job.id) if isinstance(event, MessageEnd)
            ]
            if params.message is not None and all(message.id != params.message.id for message in recorded):
                recorded.insert(0, params.message)
            messages += recorded
    return messages


async def _failed_runs(engine: Engine, tab: str) -> list[Job]:
    """The runs that failed since the last good one, the latest first."""
    latest = await engine.find(queue=tab, kind=TURN, states=["done", "failed"], limit=1)
    if not latest or latest[0].state == "done":
        return []
    jobs = await engine.find(queue=tab, kind=TURN, states=["done", "failed"], limit=MAX_FAILED_RUNS)
    return list(takewhile(lambda job: job.state == "failed", jobs))


class ChatQueue:
    """``forwarded`` are the jobs of the messages that the run in progress was given, by the message's id; ``run`` is the
    latest run, whose own message is no longer pending. Hold ``lock`` to change the queue: messages are answered in order.
    """

    def __init__(self, engine: Engine, tab: str, chat: ChatSession) -> None:
        self._engine = engine
        self._tab = tab
        self._chat = chat
        self.lock = anyio.Lock()
        self.forwarded: dict[str, str] = {}
        self.run: str | None = None

    async def jobs(self) -> list[tuple[Job, TurnParams]]:
        """The pending and held jobs, the oldest first."""
        jobs = await self._engine.find(
            queue=self._tab, kind=TURN, states=["queued", "waiting"], limit=MAX_PENDING
        )
        return [
            (job, msgspec.json.decode(job.params, type=TurnParams))
            for job in reversed(jobs)
            if is_held(job) or job.id != self.run
        ]

    async def messages(self) -> list[QueuedMessage]:
        """The queue as the user sees it, the oldest message first."""
        return [
            QueuedMessage(message=params.message, held=is_held(job))
            for job, params in await self.jobs()
            if params.message is not None and params.message.id not in self._chat.delivered
        ]

    async def find(self, message: str) -> Job | None:
        """The job of a message that no run has taken."""
        for job, params in await self.jobs():
            if params.message is not None and params.message.id == message:
                return None if message in self._chat.delivered else job
        return None

    async def hold(self) -> None:
        """Send none of the pending messages until they are released, in this process or a later one."""
        pending = [job.id for job, params in await self.jobs() if params.message is not None]
        await self._engine.suspend(pending, HELD)

    async def release(self, message: str | None = None) -> list[str]:
        """Queue a held message, or all of them, again; returns their runs."""
        released: list[str] = []
        for job, params in await self.jobs():
            if params.message is None or not is_held(job) or message not in {None, params.message.id}:
                continue
            released.append(await self.submit(params))
        return released

    async def submit(self, params: TurnParams) -> str:
        """Queue a message; returns its run. Submitting it again changes nothing."""
        assert params.message is not None  # noqa: S101 — turns without a message have keys of their own
        key = f"{self._tab}/{params.message.id}"
        return await self._engine.submit(TURN, to_json(params), queue=self._tab, key=key)

    async def forward(self) -> None:
        """Give the run in progress all pending messages, in their order, unless the user has stopped it."""
        for job, params in await self.jobs():
            # Each query of the journal takes its time, in which a run may have ended and the next have started.
            agent, journal = self._chat.active_agent, self._chat.journal
            if agent is None or journal is None or self._chat.stop_requested:
                return  # a run that ends before its next request would take a message and not answer it
            message = params.message
            if message is None or params.before is not None:
                return  # the conversation branches there
            if is_held(job):
                continue
            if message.id in self._chat.delivered:
                await self._engine.cancel(job.id, TAKEN)
            elif message.id not in self.forwarded and job.id != journal.run:
                if params.typed:
                    message = await self._read_typed(agent, message)
                    if self._chat.active_agent is not agent:
                        return  # the next run is given it
                self.forwarded[message.id] = job.id
                await agent.queue_message(message)

    async def _read_typed(self, agent: CodingAgent, message: UserMessage) -> UserMessage:
        try:
            return await _read_typed(agent, message, self._chat)
        except WorkspaceError as error:
            await self._chat.record(
                Notice(level="warning", message=f"The message was sent as it is. {error}")
            )
            return message

    async def finish_run(self) -> bool:
        """Cancel the jobs of the messages that the run took; returns whether another run follows by itself."""
        for message in self._chat.delivered & self.forwarded.keys():
            await self._engine.cancel(self.forwarded.pop(message), TAKEN)
        self.forwarded.clear()  # the next run is given them again
        return any(not is_held(job) for job, _ in await self.jobs())

    async def withdraw(self, message: str) -> bool:
        """Remove a message that no run has taken; False if one has."""
        job = await self.find(message)
        if job is None:
            return False
        agent = self._chat.active_agent
        if agent is not None and message in self.forwarded and not agent.unqueue(message):
            return False  # the run takes it just now
        self.forwarded.pop(message, None)
        return await self._engine.cancel(job.id, WITHDRAWN)


def is_held(job: Job) -> bool:
    """Whether a message's job waits for the user to send it."""
    return job.state == "waiting"
