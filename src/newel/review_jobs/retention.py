"""How long jobs and sessions are kept, and how many. Only ended ones are ever deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from newel.jobs.engine import FINAL, Engine
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.errors import TooMany
from newel.review_jobs.job_registry import JobRegistry
from newel.review_jobs.journal import find_jobs
from newel.review_jobs.session_store import SessionStore


class Retention:
    """Deletes old jobs and sessions, and refuses new ones beyond the limits."""

    def __init__(
        self, engine: Engine, store: SessionStore, registry: JobRegistry, limits: ReviewLimits
    ) -> None:
        self._engine = engine
        self._store = store
        self._registry = registry
        self._limits = limits

    async def collect(self, *, room: int = 0) -> None:
        """Delete ended jobs that are too old or beyond a session's limit, the oldest first. Delete archived sessions
        without live jobs once their jobs are gone, or at once if ``room`` more sessions would not fit.
        """
        limits, store = self._limits, self._store
        expiry = datetime.now(UTC) - timedelta(hours=limits.completed_ttl_hours)
        for session in list(store.sessions.values()):
            jobs = await find_jobs(self._engine, session.id)
            ended = [job for job in jobs if job.state in FINAL]
            excess = max(len(jobs) - limits.max_jobs_per_session, 0)
            is_excess = session.status == "archived" and len(store.sessions) + room > limits.max_sessions
            if is_excess and len(ended) == len(jobs):
                excess = len(jobs)
            expired = [
                job for number, job in enumerate(ended) if number < excess or _is_before(job.updated, expiry)
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

    async def make_room_for_session(self) -> None:
        """Raises ``TooMany``."""
        if len(self._store.sessions) >= self._limits.max_sessions:
            await self.collect(room=1)
        if len(self._store.sessions) >= self._limits.max_sessions:
            raise TooMany(
                f"There are {self._limits.max_sessions} sessions in use, which is the limit. Archive one first."
            )


def _is_before(timestamp: str, expiry: datetime) -> bool:
    return datetime.fromisoformat(timestamp) < expiry
