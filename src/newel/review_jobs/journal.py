"""What happened in a job: events that clients poll, and the messages that the job goes on from.

Both stand in the journal that the engine keeps, and are numbered together: a client's cursor is the number of the last
event it has seen. Numbers between two events may be those of messages, which clients are not sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal

import anyio
import msgspec

from newel.agent.messages import AppMessage, Wire, now
from newel.jobs.engine import Engine, EngineError, Job, JobOutcome, Lease, LeaseLost
from newel.review_jobs.errors import NoSuchJob
from newel.review_jobs.job_state import JobState
from newel.review_jobs.schemas import ContextRow
from newel.text.json import to_json

KIND: Final = "review"
"""The kind of these jobs on the engine."""

EventType = Literal[
    "message",
    "agent.message",
    "job.started",
    "checkpoint.created",
    "tool.call.requested",
    "tool.call.completed",
    "clarification.requested",
    "clarification.received",
    "edits.proposed",
    "conflict.detected",
    "rerun.started",
    "diff.generated",
    "review.updated",
    "apply.started",
    "apply.completed",
    "checkpoint.rollback.started",
    "checkpoint.rollback.completed",
    "checkpoint.rollback.failed",
    "trace.failed",
    "job.completed",
    "job.failed",
]
HIDDEN: Final = "message"
"""The type of what is kept for the job itself."""
PATIENCE = 20.0
"""Seconds for a worker to give a job up whose last event it has written."""


class JobParams(Wire, frozen=True, kw_only=True):
    """What a job was asked for. ``key`` is the one it was submitted under; ``changed`` tells a re-run what is new."""

    session: str
    key: str
    instruction: str
    context_rows: list[ContextRow] = []
    max_tool_calls: int
    rerun_of: str = ""
    changed: str = ""


class JobEvent(msgspec.Struct, frozen=True):
    """One entry of a journal; ``ts`` is ISO 8601 in UTC."""

    type: EventType
    ts: str
    data: dict[str, Any]


_decoder = msgspec.json.Decoder(JobEvent)


def event(kind: EventType, **data: Any) -> JobEvent:
    """What happens now. ``data`` holds what JSON can."""
    return JobEvent(kind, now(), data)


def message_entry(message: AppMessage) -> JobEvent:
    return event(HIDDEN, message=msgspec.to_builtins(message))


def decode(data: bytes) -> JobEvent:
    return _decoder.decode(data)


def params_of(job: Job | Lease) -> JobParams:
    return msgspec.json.decode(job.params, type=JobParams)


class JobJournal:
    """The journal of one job and what it comes to, in the one process that writes it. Use ``open``.

    While a worker carries the job out it holds ``lease``; the others wait until the job waits for them.
    """

    def __init__(self, engine: Engine, job: Job, limit: int) -> None:
        self._engine = engine
        self._limit = limit
        self._lock = anyio.Lock()
        self.job = job.id
        self.params = params_of(job)
        self.state = JobState(created_at=job.created)
        self.lease: Lease | None = None
        self.deciding = anyio.Lock()
        """Held by who decides something of the whole job: applies it, answers it, runs it again."""

    @classmethod
    async def open(cls, engine: Engine, job_id: str, *, limit: int) -> JobJournal:
        """Raises ``NoSuchJob``."""
        job = await engine.get(job_id)
        if job is None or job.kind != KIND:
            raise NoSuchJob(f"There is no job {job_id}; it may have been forgotten since it ended.")
        journal = cls(engine, job, limit)
        while page := await engine.read(job_id, journal.state.seq):
            for entry in page:
                journal._fold(entry.seq, decode(entry.data))
        journal.state.settle(job)
        return journal

    async def settle(self) -> None:
        """Learn what an engine says that gave the job up outside its journal, while nobody carries it out."""
        if self.lease is None and self.state.status in {"queued", "running"}:
            job = await self._engine.get(self.job)
            if job is not None:
                self.state.settle(job)

    @property
    def is_full(self) -> bool:
        """Whether there are as many entries as may be; what ends a job still has room."""
        return self.state.seq >= self._limit

    async def append(self, *events: JobEvent) -> None:
        """Add to the journal, all or nothing, as the worker that carries the job out. Raises ``LeaseLost`` and ``JobCancelled``."""
        lease = self.lease
        if lease is None:
            raise LeaseLost(f"Job {self.job} is not running.")
        await self._add(events, lambda data, seq: self._engine.append(lease, data, expect_seq=seq))

    async def annotate(self, *events: JobEvent, outcome: JobOutcome | None = None) -> None:
        """Add to the journal of a job that waits or has ended, all or nothing. ``outcome`` ends one that waits. Raises
        ``LeaseLost``.
        """
        await self._released()
        await self._add(
            events,
            lambda data, seq: self._engine.annotate(self.job, data, expect_seq=seq, outcome=outcome),
        )

    async def _add(
        self, events: Sequence[JobEvent], put: Callable[[list[bytes], int], Awaitable[int]]
    ) -> None:
        with anyio.CancelScope(shield=True):  # a caller that goes away must not leave journal and state apart
            async with self._lock:
                before = self.state.seq
                await put([to_json(each) for each in events], before)
                for seq, each in enumerate(events, before + 1):
                    self._fold(seq, each)

    async def messages(self) -> list[AppMessage]:
        """What was said between the job and the model."""
        said: list[AppMessage] = []
        seq = 0
        while page := await self._engine.read(self.job, seq):
            seq = page[-1].seq
            entries = [decode(entry.data) for entry in page]
            said += [
                msgspec.convert(each.data["message"], AppMessage) for each in entries if each.type == HIDDEN
            ]
        return said

    async def go_on(self) -> None:
        """Let a worker carry on with the job."""
        await self._released()
        await self._engine.submit(
            KIND, to_json(self.params), queue=queue_of(self.params.session), key=self.params.key
        )

    async def _released(self) -> None:
        """Wait until the worker that has said its last word has given the job up too. Raises ``EngineError``."""
        if not await self._engine.released(self.job, wait=PATIENCE):
            raise EngineError(
                f"Job {self.job} could not be finished within {PATIENCE:.0f} seconds: perhaps the disk is full. Make room, "
                "then try again."
            )

    def _fold(self, seq: int, entry: JobEvent) -> None:
        self.state.fold(seq, entry.type, entry.ts, entry.data)


def queue_of(session: str) -> str:
    """The jobs of one session are carried out one after the other."""
    return f"review/{session}"


async def find_jobs(engine: Engine, session: str) -> list[Job]:
    """A session's jobs, the oldest first."""
    return (await engine.find(kind=KIND, queue=queue_of(session), limit=10_000))[::-1]
