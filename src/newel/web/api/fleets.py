"""Fleets over HTTP: what runs on many machines, seen and reviewed from this one."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import Annotated, Protocol

import anyio
import msgspec
from fastapi import APIRouter, Path, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from newel.agent.messages import Wire
from newel.fleet.engine import FleetEngine
from newel.fleet.job import FLEET_CONTRACT, read_job
from newel.fleet.live import follow_job
from newel.fleet.proposals import session_of
from newel.jobs.engine import LIVE, EngineError, JournalEntry
from newel.jobs.placement import FleetSummary, Placement, Spending, WorkerInfo
from newel.runs.models import Contract, LiveSnapshot
from newel.runs.run_events import Notice, decode, encode
from newel.web.api.chat import EmptyBody
from newel.web.api.runs import EventPage, RunEvent, RunState
from newel.web.event_stream import (
    MAX_WAIT,
    Events,
    EventStream,
    LastEventId,
    accepts_stream,
    cancel_when_any,
    resume_after,
)
from newel.web.http_schema import Failure, Json, read_body, route

CANCELLED = "cancelled in the workbench"
UNREADABLE = "Event {} of this job cannot be read by this Newel."
MAX_TITLE = 200
"""Characters of a contract that a list shows."""

FleetId = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{1,64}$")]
JobId = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{1,64}$")]
State = Annotated[str, Query(pattern="^[a-z]{0,32}$", description="Only jobs in this state; empty for all.")]


class FleetEntry(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """A fleet in a list. ``title`` is the beginning of its first contract, ``created`` is in ISO 8601 and UTC, ``states`` counts its jobs:
    those whose contract has ended are ``completed``, ``stopped``, ``failed`` or ``cancelled``.
    """

    id: str
    title: str
    created: str
    states: dict[str, int]


class FleetJobEntry(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """A job of a fleet. ``number`` is its place in it, ``values`` are those of its row, ``labels`` those that its worker must have.
    ``worker`` is its last one. ``status`` is as in ``FleetEntry``, ``reason`` says why the job ended or waits; its changes are proposed as
    a run of ``session``.
    """

    id: str
    fleet: str
    number: int
    contract: Contract
    values: dict[str, str]
    labels: list[str]
    status: str
    reason: str
    worker: str
    attempts: int
    session: str
    created: str
    updated: str


class FleetPage(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """The latest fleets first; ``more`` says that there are older ones."""

    fleets: list[FleetEntry]
    more: bool
    workers: list[WorkerInfo]


class FleetJobs(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """A fleet and its jobs in their order. ``more`` says that it has others; ``spending`` is null unless the fleet has a budget."""

    fleet: FleetEntry
    spending: Spending | None
    jobs: list[FleetJobEntry]
    more: bool


class ProposedJob(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """The changes of ``files`` files are proposed in this project as run ``run``, 0 if they were before; ``notices`` say what is not, and
    why.
    """

    run: str
    files: int
    notices: list[str]


class CancelledJobs(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """``cancelled`` jobs were ended, the others had ended before."""

    cancelled: int


class FleetDesk(Protocol):
    def engine(self) -> AbstractAsyncContextManager[FleetEngine]:
        """The engine of the fleet. Raises ``ConfigError`` without one, and ``EngineError``."""
        ...

    async def propose(self, engine: FleetEngine, placement: Placement) -> ProposedJob:
        """Propose the changes of a job that has ended. Raises ``NewelError``."""
        ...


KINDS: list[type] = [FleetPage, FleetJobs, FleetJobEntry, ProposedJob, CancelledJobs]


def fleet_routes(desk: FleetDesk, closing: anyio.Event) -> APIRouter:
    router = APIRouter()
    _add_lists(router, desk)
    _add_job(router, desk)
    _add_events(router, desk, closing)
    return router


def _add_lists(router: APIRouter, desk: FleetDesk) -> None:
    @router.get("/api/fleets", **route("List the fleets and the workers", FleetPage, 409, 422))
    async def fleets(limit: Annotated[int, Query(ge=1, le=500)] = 50) -> Response:
        async with desk.engine() as engine:
            found = await engine.fleets.list(kind=FLEET_CONTRACT, limit=limit + 1)
            workers = await engine.workers()
        entries = [_fleet_entry(each) for each in found[:limit]]
        return Json(FleetPage(fleets=entries, more=len(found) > limit, workers=workers))

    @router.get("/api/fleets/{fleet}", **route("Get a fleet and its jobs", FleetJobs, 404, 409, 422))
    async def fleet(
        fleet: FleetId, *, state: State = "", limit: Annotated[int, Query(ge=1, le=1000)] = 100
    ) -> Response:
        async with desk.engine() as engine:
            summary = await _summary(engine, fleet)
            states = [state] if state else None
            jobs = await engine.fleets.jobs(fleet, kind=FLEET_CONTRACT, states=states, limit=limit + 1)
            spending = await engine.budgets.spending(fleet)
        entries = [_job_entry(each) for each in jobs[-limit:]]
        return Json(
            FleetJobs(fleet=_fleet_entry(summary), spending=spending, jobs=entries, more=len(jobs) > limit)
        )

    @router.post(
        "/api/fleets/{fleet}/cancel",
        **route("Cancel the jobs of a fleet", CancelledJobs, 404, 409, 422, body=EmptyBody),
    )
    async def cancel(request: Request, fleet: FleetId) -> Response:
        await read_body(request, EmptyBody)
        async with desk.engine() as engine:
            await _summary(engine, fleet)
            jobs = await engine.fleets.jobs(fleet, kind=FLEET_CONTRACT, states=LIVE)
            cancelled = [await engine.cancel(each.job.id, CANCELLED) for each in jobs]
        return Json(CancelledJobs(cancelled=sum(cancelled)))


def _add_job(router: APIRouter, desk: FleetDesk) -> None:
    @router.get("/api/fleet-jobs/{job}", **route("Get a job of a fleet", FleetJobEntry, 404, 409, 422))
    async def job(job: JobId) -> Response:
        async with desk.engine() as engine:
            return Json(_job_entry(await _placement(engine, job)))

    @router.post(
        "/api/fleet-jobs/{job}/cancel", **route("Cancel a job", CancelledJobs, 404, 409, 422, body=EmptyBody)
    )
    async def cancel(request: Request, job: JobId) -> Response:
        await read_body(request, EmptyBody)
        async with desk.engine() as engine:
            await _placement(engine, job)
            return Json(CancelledJobs(cancelled=int(await engine.cancel(job, CANCELLED))))

    @router.post(
        "/api/fleet-jobs/{job}/propose",
        **route("Propose the changes of a job in this project", ProposedJob, 404, 409, 422, body=EmptyBody),
    )
    async def propose(request: Request, job: JobId) -> Response:
        """Its files are compared at the beginning and at the end; the review of the project has the difference as pending hunks. A repeated
        request changes nothing.
        """
        await read_body(request, EmptyBody)
        async with desk.engine() as engine:
            return Json(await desk.propose(engine, await _placement(engine, job)))


def _add_events(router: APIRouter, desk: FleetDesk, closing: anyio.Event) -> None:
    @router.get(
        "/api/fleet-jobs/{job}/events",
        **route(
            "Get or stream the events of a job",
            EventPage,
            404,
            409,
            422,
            stream=("job", "event", "soFar", "error", "end"),
        ),
    )
    async def events(
        request: Request,
        job: JobId,
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
        """Returns JSON, or a stream with ``Accept: text/event-stream``. In a stream, an ``event`` is permanent and sent exactly once;
        ``soFar`` replaces what came before of the message that is being written and of the output of running tools, several times a second;
        ``job`` is the job, whenever its state has changed; ``end`` is the last, or ``error``, after which you connect again. The first
        ``soFar`` comes once all events so far were sent.
        """
        async with desk.engine() as engine:
            await _placement(engine, job)
            if accepts_stream(request):
                start = resume_after(last_event_id, after)
                return EventStream(partial(_stream, engine, job, start), closing)
            page: list[JournalEntry] = []
            async with cancel_when_any(closing.wait):
                page = await engine.read(job, after, limit=limit, wait=wait)
            now = await engine.get(job)
        return Json(
            EventPage(
                events=[RunEvent(seq=entry.seq, event=_event(entry)) for entry in page],
                next=page[-1].seq if page else after,
                state=now.state if now else "cancelled",
            )
        )


async def _stream(engine: FleetEngine, job: str, after: int, events: Events) -> None:
    try:
        async with aclosing(follow_job(engine, job, after)) as updates:
            async for update in updates:
                match update:
                    case Placement():
                        await events("job", _job_entry(update))
                    case JournalEntry():
                        await events("event", _event(update), number=update.seq)
                    case LiveSnapshot():
                        await events("soFar", update)
        now = await engine.get(job)
    except EngineError as error:  # the reader comes again
        await events("error", Failure(error.code, str(error)))
        return
    await events("end", RunState(state=now.state if now else "cancelled", reason=now.reason if now else ""))


async def _summary(engine: FleetEngine, fleet: str) -> FleetSummary:
    found = await engine.fleets.list(kind=FLEET_CONTRACT, prefix=fleet, limit=2)
    for each in found:
        if each.id == fleet:
            return each
    raise HTTPException(404, f"There is no fleet {fleet}; it may have been deleted.")


async def _placement(engine: FleetEngine, job: str) -> Placement:
    for each in await engine.fleets.find_jobs(job, kind=FLEET_CONTRACT, limit=1):
        if each.job.id == job:
            return each
    raise HTTPException(404, "No fleet has this job; it may have been deleted.")


def _event(entry: JournalEntry) -> msgspec.Raw:
    """The event as this Newel knows it: a worker may write anything."""
    try:
        return msgspec.Raw(encode(decode(entry.data)))
    except msgspec.DecodeError:
        return msgspec.Raw(encode(Notice(level="warning", message=UNREADABLE.format(entry.seq))))


def _fleet_entry(summary: FleetSummary) -> FleetEntry:
    job = read_job(summary.params)
    return FleetEntry(
        id=summary.id,
        title=job.contract.text.strip()[:MAX_TITLE],
        created=summary.submitted,
        states=summary.states,
    )


def _job_entry(placement: Placement) -> FleetJobEntry:
    job, params = placement.job, read_job(placement.job.params)
    return FleetJobEntry(
        id=job.id,
        fleet=params.fleet,
        number=params.number,
        contract=params.contract,
        values=params.values,
        labels=params.labels,
        status=placement.state,
        reason=job.reason,
        worker=placement.worker,
        attempts=job.attempts,
        session=session_of(job.id),
        created=job.created,
        updated=job.updated,
    )
