"""A run's events over HTTP: JSON pages for polling, SSE for streaming. Both resume from any sequence number."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

import anyio
import msgspec
from fastapi import APIRouter, Path, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from newel.agent.messages import Wire
from newel.jobs.engine import FINAL, JobState, JournalEntry
from newel.runs.models import LiveSnapshot
from newel.runs.run_events import is_lasting
from newel.web.event_stream import (
    MAX_WAIT,
    Events,
    EventStream,
    LastEventId,
    accepts_stream,
    cancel_when_any,
    resume_after,
)
from newel.web.http_schema import Json, route
from newel.workbench.workbench import Workbench


class RunEvent(Wire, frozen=True, kw_only=True):
    """``event`` is an event of docs/protocol.md, ``seq`` its number in the run."""

    seq: int
    event: msgspec.Raw


class EventPage(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """Continue with ``after`` = ``next``. An empty page whose ``state`` is done, failed or cancelled is the last."""

    events: list[RunEvent]
    next: int
    state: JobState


class RunState(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """The end of a stream. ``reason`` explains the state."""

    state: JobState
    reason: str


def run_routes(workbench: Workbench, closing: anyio.Event) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/api/runs/{run}/events",
        **route("Get or stream a run's events", EventPage, 404, 422, stream=("event", "soFar", "end")),
    )
    async def events(
        request: Request,
        run: Annotated[str, Path(max_length=64)],
        *,
        after: Annotated[
            int, Query(ge=0, le=2**53, description="The number of the last event received.")
        ] = 0,
        limit: Annotated[int, Query(ge=1, le=1000, description="Events per page.")] = 100,
        wait: Annotated[
            float, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for an event if there is none.")
        ] = 0,
        last_event_id: LastEventId = None,
    ) -> Response:
        """Returns JSON, or a stream with ``Accept: text/event-stream``. In a stream, an ``event`` with an id is permanent and
        sent exactly once; one without is a delta of text or output; ``soFar`` replaces the deltas that a late reader
        missed; ``end`` is the last.
        """
        if await workbench.engine.get(run) is None:
            raise HTTPException(404, "No run has this id.")
        if accepts_stream(request):
            start = resume_after(last_event_id, after)

            async def produce(events: Events) -> None:
                await _stream(workbench, run, start, events)

            return EventStream(produce, closing)
        page: list[JournalEntry] = []
        async with cancel_when_any(closing.wait):
            page = await workbench.engine.read(run, after, limit=limit, wait=wait)
        job = await workbench.engine.get(run)
        return Json(
            EventPage(
                events=[RunEvent(seq=entry.seq, event=msgspec.Raw(entry.data)) for entry in page],
                next=page[-1].seq if page else after,
                state=job.state if job else "cancelled",
            )
        )

    return router


async def _stream(workbench: Workbench, run: str, after: int, events: Events) -> None:
    async with aclosing(workbench.hub.follow(run, after)) as items:
        async for item in items:
            if isinstance(item.event, LiveSnapshot):
                await events("soFar", item.event)
            else:
                await events("event", item.event, number=item.seq if is_lasting(item.event) else None)
    job = await workbench.engine.get(run)
    if job is not None and job.state in FINAL:
        await events("end", RunState(state=job.state, reason=job.reason))
