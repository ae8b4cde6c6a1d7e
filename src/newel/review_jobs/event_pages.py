"""The events of a job, page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from newel.jobs.engine import Engine
from newel.review_jobs.job_state import JobState
from newel.review_jobs.journal import HIDDEN, decode
from newel.review_jobs.schemas import EventsPage, EventView

PAGE = 500
"""Events of one page, at most."""


async def page_of(
    engine: Engine,
    job: str,
    state: Callable[[], Awaitable[JobState]],
    cursor: int,
    *,
    limit: int,
    wait: float,
) -> EventsPage:
    """Up to ``limit`` events after number ``cursor``; where there are none, those that come within ``wait`` seconds. The
    status of a page is never behind its events, and one without events whose status is final is the last.
    """
    deadline = anyio.current_time() + wait
    while True:
        left = deadline - anyio.current_time()
        entries = await engine.read(job, cursor, limit=min(max(limit, 1), PAGE), wait=max(left, 0.0))
        now = await state()
        found: list[EventView] = []
        for entry in entries:
            if entry.seq > now.seq:
                break  # it is being added just now: the status does not know of it yet
            cursor = entry.seq
            each = decode(entry.data)
            if each.type != HIDDEN:
                found.append(EventView(cursor=entry.seq, type=each.type, ts=each.ts, data=each.data))
        is_behind = cursor < now.seq
        if found or (not is_behind and (now.is_finished or left <= 0)):
            return EventsPage(job_id=job, status=now.status, next_cursor=cursor, events=tuple(found))
