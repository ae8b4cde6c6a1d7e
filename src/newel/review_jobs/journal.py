"""The journal of a job: the events that clients poll, and the messages from which the job resumes.

Both are numbered in one sequence; a client's cursor is the number of the last event it has seen. Clients do not get the
messages, so the numbers of events have gaps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal

import anyio
import msgspec

from newel.agent.messages import AppMessage, Wire, now
from newel.agent.ports import AgentMode
from newel.jobs.engine import FINAL, Engine, EngineError, Job, JobOutcome, Lease, LeaseLost
from newel.review_jobs.errors import NoSuchJob
from newel.review_jobs.requests import ContextRow, HunkName
from newel.review_jobs.responses import AppliedFile, JobStatus, Question
from newel.text.json import to_json
from newel.text.sanitize import plain_line
from newel.tools.review import ProposedEdit

KIND: Final = "review"
"""The engine's kind for review jobs."""

EventType = Literal[
    "message",
    "agent.message",
    "job.started",
    "model.routed",
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
"""The type of entries that clients do not get."""
TITLE_LENGTH: Final = 80
RELEASE_TIMEOUT_S = 20.0
"""For a worker to release a job after the job's last event."""


class JobParams(Wire, frozen=True, kw_only=True):
    """``key`` is the one that the job was submitted with; ``changed`` is the patch that a rerun shows to the model.
    ``agent_mode`` is None in jobs from before it existed. ``revise`` is the one hunk that the job may change.
    """

    session: str
    key: str
    instruction: str
    context_rows: list[ContextRow] = []
    max_tool_calls: int
    agent_mode: AgentMode | None = None
    rerun_of: str = ""
    changed: str = ""
    revise: HunkName | None = None

    @property
    def title(self) -> str:
        """The start of the instruction, on one line."""
        return plain_line(self.instruction, TITLE_LENGTH)


class JobEvent(msgspec.Struct, frozen=True):
    """One entry of a journal; ``ts`` is ISO 8601 in UTC."""

    type: EventType
    ts: str
    data: dict[str, Any]


_decoder = msgspec.json.Decoder(JobEvent)


def event(kind: EventType, **data: Any) -> JobEvent:
    """An event of now; ``data`` must fit JSON."""
    return JobEvent(kind, now(), data)


def message_entry(message: AppMessage) -> JobEvent:
    return event(HIDDEN, message=msgspec.to_builtins(message))


def decode(data: bytes) -> JobEvent:
    return _decoder.decode(data)


def params_of(job: Job | Lease) -> JobParams:
    return msgspec.json.decode(job.params, type=JobParams)


FINISHED: frozenset[JobStatus] = frozenset({"completed", "failed"})
ENDINGS = frozenset({"apply.completed", "job.completed", "job.failed"})
"""The events that end a job."""


class JobState:
    """The state after the events up to ``seq``."""

    def __init__(self, created_at: str) -> None:
        self.seq = 0
        self.status: JobStatus = "queued"
        self.created_at = created_at
        self.started_at: str | None = None
        self.finished_at: str | None = None
        self.error: str | None = None
        self.summary = ""
        """The model's last message."""
        self.checkpoint_id: str | None = None
        self.question: Question | None = None
        self.answer: str | None = None
        """The answer to ``question``, until the model has received it."""
        self.answers: dict[str, str] = {}
        """All answers, by question id."""
        self.edits: list[ProposedEdit] = []
        self.entries: set[str] = set()
        """Ids of the ledger's entries that hold the edits."""
        self.hashes: dict[str, str] = {}
        """The files with proposals, each with the hash of the base that clients know."""
        self.applying: list[str] | None = None
        """The accepted hunks of an unfinished application."""
        self.applied_ids: list[str] = []
        self.applied: list[AppliedFile] | None = None
        self.tool_calls = 0

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED

    def reconcile(self, job: Job) -> None:
        """Adopt the end of a job that the engine recorded outside the journal."""
        if job.state in FINAL:
            self.abandon(job.updated, job.reason)

    def abandon(self, ts: str, reason: str) -> None:
        """Fail a job that has not ended by itself."""
        if not self.is_finished:
            self.status, self.finished_at = "failed", ts
            self.error = reason or "The job was cancelled."

    def reduce(self, seq: int, kind: str, ts: str, data: dict[str, Any]) -> None:
        """Apply event number ``seq``."""
        self.seq = seq
        match kind:
            case "job.started":
                self.status, self.started_at = "running", ts
            case "checkpoint.created":
                self.checkpoint_id = data["checkpoint_id"]
            case "agent.message":
                self.summary = data["text"]
            case "tool.call.completed":
                self.tool_calls += 1
                if data["name"] == "clarify_user":
                    self.question = self.answer = None
            case "clarification.requested":
                self.status = "waiting_for_user"
                self.question, self.answer = Question(data["question_id"], data["question"]), None
            case "clarification.received":
                self.status, self.answer = "running", data["answer"]
                self.answers[data["question_id"]] = data["answer"]
            case "edits.proposed":
                self.edits += msgspec.convert(data["edits"], list[ProposedEdit])
                self.entries |= set(data["entries"])
                self.hashes |= data["base_file_hashes"]
            case "diff.generated":
                self.status = "awaiting_review"
                self.hashes |= {file["file_path"]: file["base_file_hash"] for file in data["files"]}
            case "review.updated" | "conflict.detected":
                hashes: dict[str, str] = data["base_file_hashes"]
                self.hashes |= {path: base for path, base in hashes.items() if path in self.hashes}
                if kind == "conflict.detected":
                    self.applying = None
            case "apply.started":
                self.applying = data["accepted_hunk_ids"]
            case _ if kind in ENDINGS:
                self._reduce_end(kind, ts, data)
            case _:
                pass

    def _reduce_end(self, kind: str, ts: str, data: dict[str, Any]) -> None:
        self.finished_at = ts
        if kind == "job.failed":
            self.status, self.error = "failed", data["error"]
            return
        self.status = "completed"
        if kind == "apply.completed":
            self.applied_ids, self.applying = self.applying or [], None
            self.applied = msgspec.convert(data["applied_files"], list[AppliedFile])


class JobJournal:
    """The journal of one job and the state reduced from it, in the process that writes it. Use ``open``.

    A worker that runs the job sets ``lease`` and appends; everyone else annotates a job that is not running.
    """

    def __init__(self, engine: Engine, job: Job, limit: int) -> None:
        self._engine = engine
        self._limit = limit
        self._lock = anyio.Lock()
        self.job = job.id
        self.params = params_of(job)
        self.state = JobState(created_at=job.created)
        self.lease: Lease | None = None
        self.decision_lock = anyio.Lock()
        """Serializes decisions on the whole job: apply, answer, cancel, rerun."""

    @classmethod
    async def open(cls, engine: Engine, job_id: str, *, limit: int) -> JobJournal:
        """Raises ``NoSuchJob``."""
        job = await engine.get(job_id)
        if job is None or job.kind != KIND:
            raise NoSuchJob(f"Job {job_id} does not exist; it may have been deleted after it ended.")
        journal = cls(engine, job, limit)
        while page := await engine.read(job_id, journal.state.seq):
            for entry in page:
                journal._reduce(entry.seq, decode(entry.data))
        journal.state.reconcile(job)
        return journal

    async def reconcile(self) -> None:
        """Adopt the end of a job that the engine failed or cancelled outside its journal."""
        if self.lease is None and self.state.status in {"queued", "running"}:
            job = await self._engine.get(self.job)
            if job is not None:
                self.state.reconcile(job)

    @property
    def is_full(self) -> bool:
        """Whether the job has reached its limit of entries; those that end it are still added."""
        return self.state.seq >= self._limit

    async def append(self, *events: JobEvent) -> None:
        """Add entries atomically, as the worker that runs the job. Raises ``LeaseLost`` and ``JobCancelled``."""
        lease = self.lease
        if lease is None:
            raise LeaseLost(f"Job {self.job} is not running.")
        await self._add(events, lambda data, seq: self._engine.append(lease, data, expect_seq=seq))

    async def annotate(self, *events: JobEvent, outcome: JobOutcome | None = None) -> None:
        """Add entries atomically to the journal of a job that is not running. ``outcome`` ends one that waits. Raises
        ``LeaseLost``, and ``EngineError`` if the worker does not release the job.
        """
        await self._wait_for_release()
        await self._add(
            events,
            lambda data, seq: self._engine.annotate(self.job, data, expect_seq=seq, outcome=outcome),
        )

    async def _add(
        self, events: Sequence[JobEvent], put: Callable[[list[bytes], int], Awaitable[int]]
    ) -> None:
        with anyio.CancelScope(shield=True):  # a cancelled caller must not leave journal and state apart
            async with self._lock:
                before = self.state.seq
                await put([to_json(item) for item in events], before)
                for seq, item in enumerate(events, before + 1):
                    self._reduce(seq, item)

    async def notify(self, kind: EventType, **data: object) -> None:
        """Annotate, unless the journal is full."""
        if not self.is_full:
            await self.annotate(event(kind, **data))

    async def messages(self) -> list[AppMessage]:
        """The conversation between the job and the model."""
        messages: list[AppMessage] = []
        seq = 0
        while page := await self._engine.read(self.job, seq):
            seq = page[-1].seq
            entries = [decode(entry.data) for entry in page]
            messages += [
                msgspec.convert(item.data["message"], AppMessage) for item in entries if item.type == HIDDEN
            ]
        return messages

    async def resume(self) -> None:
        """Queue a suspended job again."""
        await self._wait_for_release()
        await self._engine.submit(
            KIND, to_json(self.params), queue=queue_of(self.params.session), key=self.params.key
        )

    async def _wait_for_release(self) -> None:
        """A worker writes a job's last event first and releases the job next. Raises ``EngineError``."""
        if not await self._engine.wait_for_release(self.job, wait=RELEASE_TIMEOUT_S):
            raise EngineError(
                f"Job {self.job} was not released within {RELEASE_TIMEOUT_S:.0f} seconds. The disk may be full: free some "
                "space and try again."
            )

    def _reduce(self, seq: int, entry: JobEvent) -> None:
        self.state.reduce(seq, entry.type, entry.ts, entry.data)


def queue_of(session: str) -> str:
    """The jobs of one session run one after the other."""
    return f"review/{session}"


async def find_jobs(engine: Engine, session: str) -> list[Job]:
    """A session's jobs, the oldest first."""
    return (await engine.find(kind=KIND, queue=queue_of(session), limit=10_000))[::-1]
