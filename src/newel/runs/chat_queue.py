"""The messages of a chat that no run has taken yet: forwarded to the run in progress, held after a stop, or withdrawn.

Each has a job of its own in the tab's queue, which is cancelled once a run has taken the message. A held message is a job
that waits for the user: it stays so over a restart, until it is sent or withdrawn.
"""

from __future__ import annotations

import anyio
import msgspec

from newel.jobs.engine import Engine, Job
from newel.runs.chat_session import ChatSession
from newel.runs.chat_turn import TURN, TurnParams
from newel.runs.models import QueuedMessage
from newel.text.json import to_json

TAKEN = "The run before took this message."
"""Why a message's own job ends without a run."""
WITHDRAWN = "Withdrawn by the user."
HELD = "Held, because the run before was stopped."
MAX_PENDING = 1000
"""Queued messages of one tab that are read together."""


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
        """Give the run in progress all pending messages, in their order."""
        for job, params in await self.jobs():
            # Each query of the journal takes its time, in which a run may have ended and the next have started.
            agent, journal = self._chat.active_agent, self._chat.journal
            if agent is None or journal is None:
                return
            message = params.message
            if message is None or params.before is not None:
                return  # the conversation branches there
            if is_held(job):
                continue
            if message.id in self._chat.delivered:
                await self._engine.cancel(job.id, TAKEN)
            elif message.id not in self.forwarded and job.id != journal.run:
                self.forwarded[message.id] = job.id
                await agent.queue_message(message)

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
