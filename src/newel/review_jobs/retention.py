"""What is forgotten, and when: only what has ended, and never what somebody still works with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from newel.jobs.engine import FINAL, Engine
from newel.review_jobs.errors import TooMany
from newel.review_jobs.journal import find_jobs
from newel.review_jobs.limits import ReviewLimits
from newel.review_jobs.session_store import SessionStore


async def collect(engine: Engine, store: SessionStore, limits: ReviewLimits, *, room: int = 0) -> list[str]:
    """Forget jobs that ended too long ago, or are more than a session may have, the oldest first, and archived sessions none
    of whose jobs is under way: those whose jobs are all forgotten, and others while there is no room for ``room`` more.
    Returns the ids of the jobs that are gone.
    """
    gone: list[str] = []
    oldest = datetime.now(UTC) - timedelta(hours=limits.completed_ttl_hours)
    for session in list(store.sessions.values()):
        jobs = await find_jobs(engine, session.id)
        ended = [job for job in jobs if job.state in FINAL]
        spare = max(len(jobs) - limits.max_jobs_per_session, 0)
        is_spare = session.status == "archived" and len(store.sessions) + room > limits.max_sessions
        if is_spare and len(ended) == len(jobs):
            spare = len(jobs)
        forget = [job for number, job in enumerate(ended) if number < spare or _time(job.updated) < oldest]
        gone += [job.id for job in forget if await engine.purge(job.id)]
        is_old = session.status == "archived" and _time(session.created_at) < oldest
        if len(forget) == len(jobs) and (is_spare or is_old):
            await store.forget(session.id)
    return gone


def check_room_for_job(live: int, limits: ReviewLimits) -> None:
    """Raises ``TooMany`` where ``live`` jobs of a session are all that it may have."""
    if live >= limits.max_jobs_per_session:
        raise TooMany(
            f"This session has {limits.max_jobs_per_session} jobs that run or wait for you. Decide one of them first."
        )


def check_room_for_session(store: SessionStore, limits: ReviewLimits) -> None:
    """Raises ``TooMany``."""
    if len(store.sessions) >= limits.max_sessions:
        raise TooMany(
            f"There are {limits.max_sessions} sessions, none of which may be forgotten. Archive one first."
        )


def _time(words: str) -> datetime:
    return datetime.fromisoformat(words)
