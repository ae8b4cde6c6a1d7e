"""The messages of a chat that wait for a run: handed to the run under way, held after a stop, withdrawn.

Each has a job of its own in the tab's queue, which is cancelled once a run has taken the message along. A held message is
a job that waits for the user: it stays so over a restart, until it is sent or withdrawn.
"""

from __future__ import annotations

import msgspec

from newel.agent.messages import UserMessage
from newel.jobs.engine import Engine, Job
from newel.runs.chat_session import ChatSession
from newel.runs.chat_turn import TURN, TurnParams
from newel.runs.models import QueuedMessage
from newel.text.json import to_json

SAID = "Said in the run before."
"""Why a message's own job ends without a run."""
WITHDRAWN = "Withdrawn by the user."
HELD = "Held: the run before was stopped."
MAX_WAITING = 1000
"""Messages that wait in one tab and are looked at together."""


class ChatQueue:
    """``handed`` has the jobs of the messages that the run under way was handed, by the message's id; ``run`` is the latest
    run, whose own message waits no longer.
    """

    def __init__(self, engine: Engine, tab: str) -> None:
        self._engine = engine
        self._tab = tab
        self.handed: dict[str, str] = {}
        self.run: str | None = None

    async def jobs(self) -> list[tuple[Job, TurnParams]]:
        """Those that wait for their turn or are held, the oldest first."""
        found = await self._engine.find(
            queue=self._tab, kind=TURN, states=["queued", "waiting"], limit=MAX_WAITING
        )
        return [
            (job, msgspec.json.decode(job.params, type=TurnParams))
            for job in reversed(found)
            if job.state == "waiting" or job.id != self.run
        ]

    async def messages(self, conversation: ChatSession) -> list[QueuedMessage]:
        """What waits, as a reader sees it: the oldest first."""
        return [
            QueuedMessage(message=params.message, held=is_held(job))
            for job, params in await self.jobs()
            if params.message is not None and params.message.id not in conversation.taken
        ]

    async def find(self, message: str) -> Job | None:
        """The job of a message that waits."""
        for job, params in await self.jobs():
            if params.message is not None and params.message.id == message:
                return job
        return None

    async def hold(self) -> None:
        """Send nothing of what waits now until it is released, by whatever process."""
        held = [job.id for job, params in await self.jobs() if params.message is not None]
        await self._engine.suspend(held, HELD)

    async def release(self, message: str | None = None) -> list[str]:
        """Let a held message, or all of them, take their turn; returns their runs."""
        released: list[str] = []
        for job, params in await self.jobs():
            if params.message is None or not is_held(job) or message not in {None, params.message.id}:
                continue
            key = key_of(self._tab, params.message)
            released.append(await self._engine.submit(TURN, to_json(params), queue=self._tab, key=key))
        return released

    async def clear(self, reason: str) -> None:
        """End the jobs of all that waits."""
        while found := await self.jobs():
            for job, _ in found:
                await self._engine.cancel(job.id, reason)

    async def hand_over(self, conversation: ChatSession) -> None:
        """Let the run under way take along the messages whose own runs, as yet, wait: all of them, in their order."""
        for job, params in await self.jobs():
            # Each look at the journal takes its time, in which a run may have ended and the next have begun.
            agent, recorder = conversation.working, conversation.recorder
            if agent is None or recorder is None:
                return
            message = params.message
            if message is None or params.before is not None:
                return  # the conversation takes another course there
            if is_held(job):
                continue
            if message.id in conversation.taken:
                await self._engine.cancel(job.id, SAID)
            elif message.id not in self.handed and job.id != recorder.run:
                self.handed[message.id] = job.id
                await agent.agent.queue_message(message)

    async def let_go(self, conversation: ChatSession) -> bool:
        """A run is over: messages that it took along need no run of their own. Whether another run follows by itself."""
        for message in conversation.taken & self.handed.keys():
            await self._engine.cancel(self.handed.pop(message), SAID)
        self.handed.clear()  # the next run is handed them anew
        return any(not is_held(job) for job, _ in await self.jobs())

    async def withdraw(self, message: str, conversation: ChatSession) -> bool:
        """Take back a message that no run has taken; False if one has."""
        job = await self.find(message)
        if job is None or message in conversation.taken:
            return False
        agent = conversation.working
        if agent is not None and message in self.handed and not agent.agent.unqueue(message):
            return False  # it is being said just now
        self.handed.pop(message, None)
        return await self._engine.cancel(job.id, WITHDRAWN)


def is_held(job: Job) -> bool:
    """Whether a message's job waits until the user sends it."""
    return job.state == "waiting"


def key_of(tab: str, message: UserMessage) -> str:
    """The key under which a message's job is submitted: sent again, it is the same job."""
    return f"{tab}/{message.id}"
