"""Sessions of review jobs."""

from __future__ import annotations

from newel.agent.messages import new_id
from newel.jobs.engine import FINAL, Engine
from newel.review_jobs.job_registry import JobRegistry
from newel.review_jobs.journal import find_jobs
from newel.review_jobs.presenters import session_summary, session_view
from newel.review_jobs.responses import SessionCreated, SessionList, SessionSummary, SessionView
from newel.review_jobs.retention import Retention
from newel.review_jobs.session_store import SessionStore


class SessionService:
    """Creates, lists and archives sessions."""

    def __init__(
        self, engine: Engine, store: SessionStore, registry: JobRegistry, retention: Retention
    ) -> None:
        self._engine = engine
        self._store = store
        self._registry = registry
        self._retention = retention

    async def create(self) -> SessionCreated:
        """Raises ``TooMany``."""
        await self._retention.make_room_for_session()
        session = await self._store.create(f"sess_{new_id()}")
        return SessionCreated(session_id=session.id, status=session.status, created_at=session.created_at)

    async def get(self, session_id: str) -> SessionView:
        """Raises ``NoSuchSession``."""
        session = self._store.get(session_id)
        return session_view(session, await self._registry.load(await find_jobs(self._engine, session_id)))

    async def list(self) -> SessionList:
        """All sessions, the newest first."""
        summaries: list[SessionSummary] = []
        for session in reversed(list(self._store.sessions.values())):
            jobs = await find_jobs(self._engine, session.id)
            live = await self._registry.load(job for job in jobs if job.state not in FINAL)
            summaries.append(session_summary(session, jobs, live))
        return SessionList(sessions=tuple(summaries))

    async def archive(self, session_id: str) -> SessionView:
        """Allow a session to be deleted once none of its jobs is live. Starting a job reactivates it. Raises
        ``NoSuchSession``.
        """
        await self._store.archive(session_id)
        return await self.get(session_id)
