"""Sessions of review jobs: their store, their limits, and how clients see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from newel.agent.messages import Wire, new_id, now
from newel.jobs.engine import FINAL, Engine, Job
from newel.jobs.state_log import StateLog
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.errors import NoSuchSession, TooMany
from newel.review_jobs.job_registry import JobRegistry, LoadedJob
from newel.review_jobs.journal import find_jobs, params_of
from newel.review_jobs.responses import (
    ChatEntry,
    PendingReview,
    RevisingJob,
    SessionCreated,
    SessionList,
    SessionStatus,
    SessionSummary,
    SessionView,
)

_STORE: Final = "review_sessions"
LIVE: Final = frozenset({"queued", "running", "waiting_for_user"})
"""The states of a job that has not proposed anything and may do so yet."""


class Session(Wire, frozen=True, kw_only=True, tag_field="type", tag="session_kept"):
    """A session, or its new status. Its jobs hold the conversation."""

    id: str
    created_at: str
    status: SessionStatus = "active"


class SessionForgotten(Wire, frozen=True, tag_field="type", tag="session_forgotten"):
    id: str


SessionEntry = Session | SessionForgotten
_decoder = msgspec.json.Decoder(SessionEntry)


class SessionStore:
    """Sessions in the order of their creation. A method returns when its change is durable."""

    _journal: StateLog[SessionEntry]

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}

    @classmethod
    async def open(cls, engine: Engine) -> SessionStore:
        """Call this before a worker claims jobs of the engine. Raises ``EngineError``."""
        store = cls()
        store._journal = await StateLog[SessionEntry].open(
            engine, _STORE, _decoder.decode, store._apply, what="The reviews"
        )
        return store

    def get(self, session_id: str) -> Session:
        """Raises ``NoSuchSession``."""
        if session_id not in self.sessions:
            raise NoSuchSession(f"Session {session_id} does not exist.")
        return self.sessions[session_id]

    async def create(self, session_id: str) -> Session:
        session = Session(id=session_id, created_at=now())
        await self._journal.append(session)
        return session

    async def archive(self, session_id: str) -> None:
        await self._journal.append(msgspec.structs.replace(self.get(session_id), status="archived"))

    async def activate(self, session_id: str) -> None:
        """Idempotent. Raises ``NoSuchSession``."""
        if (session := self.get(session_id)).status != "active":
            await self._journal.append(msgspec.structs.replace(session, status="active"))

    async def delete(self, session_id: str) -> None:
        await self._journal.append(SessionForgotten(session_id))

    def _apply(self, entry: SessionEntry) -> None:
        if isinstance(entry, Session):
            self.sessions[entry.id] = entry
        else:
            self.sessions.pop(entry.id, None)


class SessionService:
    """Creates, lists, archives and deletes sessions, within the limits of sessions and jobs."""

    def __init__(
        self, engine: Engine, store: SessionStore, registry: JobRegistry, limits: ReviewLimits
    ) -> None:
        self._engine = engine
        self.store = store
        self._registry = registry
        self._limits = limits

    async def create(self) -> SessionCreated:
        """Raises ``TooMany``."""
        await self._make_room()
        session = await self.store.create(f"sess_{new_id()}")
        return SessionCreated(session_id=session.id, status=session.status, created_at=session.created_at)

    async def get(self, session_id: str) -> SessionView:
        """Raises ``NoSuchSession``."""
        session = self.store.get(session_id)
        return session_view(session, await self._registry.load(await find_jobs(self._engine, session_id)))

    async def list(self) -> SessionList:
        """All sessions, the newest first."""
        summaries: list[SessionSummary] = []
        for session in reversed(list(self.store.sessions.values())):
            jobs = await find_jobs(self._engine, session.id)
            live = await self._registry.load(job for job in jobs if job.state not in FINAL)
            summaries.append(session_summary(session, jobs, live))
        return SessionList(sessions=tuple(summaries))

    async def archive(self, session_id: str) -> SessionView:
        """Allow a session to be deleted once none of its jobs is live. Starting a job reactivates it. Raises
        ``NoSuchSession``.
        """
        await self.store.archive(session_id)
        return await self.get(session_id)

    # -- retention ----------------------------------------------------------------------------------

    async def collect(self, *, room: int = 0) -> None:
        """Delete ended jobs that are too old or beyond a session's limit, the oldest first. Delete archived sessions
        without live jobs once their jobs are gone, or at once if ``room`` more sessions would not fit.
        """
        limits, store = self._limits, self.store
        expiry = datetime.now(UTC) - timedelta(hours=limits.completed_ttl_hours)
        for session in list(store.sessions.values()):
            jobs = await find_jobs(self._engine, session.id)
            ended_jobs = [job for job in jobs if job.state in FINAL]
            excess = max(len(jobs) - limits.max_jobs_per_session, 0)
            is_excess = session.status == "archived" and len(store.sessions) + room > limits.max_sessions
            if is_excess and len(ended_jobs) == len(jobs):
                excess = len(jobs)
            expired = [
                job
                for number, job in enumerate(ended_jobs)
                if number < excess or _is_before(job.updated, expiry)
            ]
            for job in expired:
                await self._registry.purge(job.id)
            is_old = session.status == "archived" and _is_before(session.created_at, expiry)
            if len(expired) == len(jobs) and (is_excess or is_old):
                await store.delete(session.id)

    def check_job_limit(self, live: int) -> None:
        """Raises ``TooMany`` if ``live`` jobs of a session are as many as it may have."""
        if live >= self._limits.max_jobs_per_session:
            raise TooMany(
                f"This session has {self._limits.max_jobs_per_session} unfinished jobs, which is the limit. "
                "Review or cancel one first."
            )

    async def _make_room(self) -> None:
        """Raises ``TooMany``."""
        if len(self.store.sessions) >= self._limits.max_sessions:
            await self.collect(room=1)
        if len(self.store.sessions) >= self._limits.max_sessions:
            raise TooMany(
                f"There are {self._limits.max_sessions} sessions in use, which is the limit. Archive one first."
            )


def _is_before(timestamp: str, expiry: datetime) -> bool:
    return datetime.fromisoformat(timestamp) < expiry


# -- the JSON ------------------------------------------------------------------------------------------


def session_view(session: Session, jobs: Sequence[LoadedJob]) -> SessionView:
    """A session with its jobs, the oldest first."""
    return SessionView(
        id=session.id,
        status=session.status,
        created_at=session.created_at,
        updated_at=max((job.updated for job, _ in jobs), default=session.created_at),
        chat=tuple(chat_of(jobs)),
        context_rows=tuple(jobs[-1][1].params.context_rows) if jobs else (),
        last_job_id=jobs[-1][0].id if jobs else None,
        pending_review=_pending_review(jobs),
    )


def session_summary(session: Session, jobs: Sequence[Job], live: Sequence[LoadedJob]) -> SessionSummary:
    """A session with its jobs and those that have not ended, the oldest first."""
    return SessionSummary(
        id=session.id,
        status=session.status,
        created_at=session.created_at,
        updated_at=max((job.updated for job in jobs), default=session.created_at),
        title=params_of(jobs[0]).title if jobs else "",
        jobs=len(jobs),
        last_job_id=jobs[-1].id if jobs else None,
        pending_review=_pending_review(live),
        asking_job_id=next(
            (job.id for job, journal in live if journal.state.status == "waiting_for_user"), None
        ),
        revising=tuple(_revising(live)),
    )


def _revising(jobs: Sequence[LoadedJob]) -> Iterator[RevisingJob]:
    for job, journal in jobs:
        hunk, status = journal.params.revise, journal.state.status
        if hunk is not None and status in LIVE:
            yield RevisingJob(
                job_id=job.id,
                file_path=hunk.file_path,
                hunk_id=hunk.hunk_id,
                status=status,
                instruction=journal.params.title,
            )


def _pending_review(jobs: Sequence[LoadedJob]) -> PendingReview | None:
    """The review of the latest job that awaits one."""
    for _, journal in reversed(jobs):
        if journal.state.status == "awaiting_review":
            return PendingReview(job_id=journal.job, files=tuple(journal.state.hashes))
    return None


def chat_of(jobs: Sequence[LoadedJob]) -> list[ChatEntry]:
    """The conversation of jobs: each instruction and its result."""
    entries: list[ChatEntry] = []
    for job, journal in jobs:
        state = journal.state
        entries.append(ChatEntry(role="user", text=journal.params.instruction, job_id=job.id, ts=job.created))
        text = state.error or state.summary
        if state.applied:
            files = ", ".join(
                f"{file.file_path}: {file.applied_hunks} kept, {file.rejected_hunks} rejected"
                for file in state.applied
            )
            text = f"{text}\n\nReviewed: {files}."
        if text:
            ts = state.finished_at or state.started_at or job.created
            entries.append(
                ChatEntry(role="assistant", text=text, job_id=job.id, ts=ts, tool_calls=state.tool_calls)
            )
    return entries
