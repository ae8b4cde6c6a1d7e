"""HTTP API of review jobs: docs/review-api.md.

A route reads its body as a struct, calls one service and returns a struct. ``open_service`` gives it the services and turns
their errors into responses, with the status from ``newel.review_jobs.errors``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from newel.agent.errors import NewelError
from newel.review.serialize import CheckpointView
from newel.review_jobs import requests, responses
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.errors import BadRequest, Unprocessable, status_of
from newel.text.json import decode_json
from newel.tools.review.clarify_user import NO_USER_ANSWER
from newel.web.event_stream import (
    MAX_WAIT,
    Events,
    EventStream,
    LastEventId,
    accepts_stream,
    cancel_when_any,
    resume_after,
)
from newel.web.http_schema import ApiError, Failure, Json, route

if TYPE_CHECKING:  # the services take long to import, and the server starts without them
    from newel.review_jobs.service import ReviewService

KINDS: Final[list[type]] = [responses.JobEnd]
"""The structs in the API; each route adds its own."""
T = TypeVar("T")

router = APIRouter(prefix="/api/agent")
"""Reads ``review``, which opens the service for one request, and the event ``closing`` from the state of the application."""


# -- what the routes share ----------------------------------------------------------------------------


@contextmanager
def _refusals() -> Generator[None]:
    try:
        yield
    except NewelError as error:
        raise ApiError(status_of(error), error.code, str(error)) from error


async def open_service(request: Request) -> AsyncGenerator[ReviewService]:
    """The services for one request, which fails when the host stays unreachable."""
    with _refusals():
        async with request.app.state.review() as service:
            yield service


async def open_lasting_service(request: Request) -> AsyncGenerator[ReviewService]:
    """The services for a request that waits for events, even while the host is unreachable."""
    with _refusals():
        async with request.app.state.review() as service:
            pass
        yield service


Service = Annotated["ReviewService", Depends(open_service, scope="function")]
LastingService = Annotated["ReviewService", Depends(open_lasting_service, scope="function")]
Id = Annotated[str, Path(max_length=64)]
FilePath = Annotated[str, Query(max_length=4096, description="Relative to the project.")]


def _route(
    response: type, summary: str, body: type | None = None, stream: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The OpenAPI description of a route."""
    KINDS.extend(kind for kind in (response, body) if kind and kind is not bytes and kind not in KINDS)
    return route(summary, response, 404, 409, 422, 500, 503, body=body, stream=stream)


async def _read(request: Request, kind: type[T]) -> T:
    """The body as a struct; an empty one is ``{}``. Raises ``BadRequest`` and ``Unprocessable``."""
    try:
        return decode_json(await request.body() or b"{}", kind)
    except msgspec.ValidationError as error:
        raise Unprocessable(f"The body is invalid: {error}.") from error
    except msgspec.DecodeError as error:
        raise BadRequest(f"The body is not valid JSON: {error}.") from error


# -- sessions and jobs --------------------------------------------------------------------------------


@router.post("/sessions", **_route(responses.SessionCreated, "Create a session", requests.NoFields))
async def create_session(request: Request, service: Service) -> Response:
    await _read(request, requests.NoFields)
    return Json(await service.sessions.create())


@router.get("/sessions", **_route(responses.SessionList, "List sessions"))
async def list_sessions(service: Service) -> Response:
    return Json(await service.sessions.list())


@router.get("/sessions/{session_id}", **_route(responses.SessionView, "Get a session"))
async def get_session(session_id: Id, service: Service) -> Response:
    return Json(await service.sessions.get(session_id))


@router.post(
    "/sessions/{session_id}/archive", **_route(responses.SessionView, "Archive a session", requests.NoFields)
)
async def archive_session(request: Request, session_id: Id, service: Service) -> Response:
    await _read(request, requests.NoFields)
    return Json(await service.sessions.archive(session_id))


@router.post("/run", **_route(responses.JobStarted, "Start a job", requests.RunRequest))
async def run_job(request: Request, service: Service) -> Response:
    return Json(await service.jobs.run(await _read(request, requests.RunRequest)))


@router.get("/jobs", **_route(responses.JobList, "List the jobs of all sessions"))
async def list_jobs(service: Service, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> Response:
    return Json(await service.jobs.list(limit=limit))


@router.get("/jobs/{job_id}", **_route(responses.JobView, "Get a job and its proposals"))
async def get_job(job_id: Id, service: Service) -> Response:
    return Json(await service.jobs.get(job_id))


@router.post(
    "/jobs/{job_id}/clarify",
    **_route(responses.JobStarted, "Answer a job's question", requests.ClarifyRequest),
)
async def clarify(request: Request, job_id: Id, service: Service) -> Response:
    body = await _read(request, requests.ClarifyRequest)
    answer = None if body.answer == NO_USER_ANSWER else body.answer
    return Json(await service.jobs.clarify(job_id, body.question_id, answer))


@router.post("/jobs/{job_id}/rerun", **_route(responses.JobStarted, "Run a job again", requests.NoFields))
async def rerun_job(request: Request, job_id: Id, service: Service) -> Response:
    await _read(request, requests.NoFields)
    return Json(await service.jobs.rerun(job_id))


@router.post("/jobs/{job_id}/cancel", **_route(responses.JobStarted, "Cancel a job", requests.NoFields))
async def cancel_job(request: Request, job_id: Id, service: Service) -> Response:
    await _read(request, requests.NoFields)
    return Json(await service.jobs.cancel(job_id))


@router.get("/limits", **_route(ReviewLimits, "Get the limits"))
async def get_limits(service: Service) -> Response:
    return Json(service.limits)


@router.get(
    "/jobs/{job_id}/events",
    **_route(responses.EventsPage, "Get or stream a job's events", stream=("event", "error", "end")),
)
async def get_events(
    request: Request,
    job_id: Id,
    service: LastingService,
    *,
    cursor: Annotated[int, Query(ge=0, le=2**53, description="The number of the last event received.")] = 0,
    limit: Annotated[int, Query(ge=1, le=500, description="Events per page.")] = 100,
    wait: Annotated[
        float, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for an event if there is none.")
    ] = 0,
    last_event_id: LastEventId = None,
) -> Response:
    """Returns JSON, or a stream with ``Accept: text/event-stream``. In a stream each ``event`` has its number as id, and
    ``end`` is the last.
    """
    closing = request.app.state.closing
    if accepts_stream(request):
        await service.jobs.get(job_id)  # an unknown job is refused before the stream starts
        return EventStream(partial(_stream, service, job_id, resume_after(last_event_id, cursor)), closing)
    page = await service.jobs.events(job_id, cursor, limit=limit)
    if wait and not page.events:
        async with cancel_when_any(closing.wait):
            page = await service.jobs.events(job_id, page.next_cursor, limit=limit, wait=wait)
    return Json(page)


async def _stream(service: ReviewService, job_id: str, cursor: int, send: Events) -> None:
    try:
        while True:
            page = await service.jobs.events(job_id, cursor, wait=MAX_WAIT)
            for event in page.events:
                await send("event", event, number=event.cursor)
            cursor = page.next_cursor
            if not page.events and page.status in {"completed", "failed"}:
                break
        error = (await service.jobs.get(job_id)).error
    except NewelError as failure:  # the job was deleted, or the journal cannot be read
        await send("error", Failure(failure.code, str(failure)))
    else:
        await send("end", responses.JobEnd(job_id=job_id, status=page.status, error=error))


# -- the project's files ------------------------------------------------------------------------------


@router.get("/tree", **_route(responses.FolderView, "List a folder"))
async def get_folder(
    service: Service,
    folder: Annotated[
        str, Query(max_length=4096, description="Relative to the project; empty for its root.")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=10_000)] = 2000,
) -> Response:
    return Json(await service.browser.folder(folder, limit=limit))


@router.get("/find", **_route(responses.FoundFiles, "Find files by name"))
async def find_files(
    service: Service,
    query: Annotated[str, Query(max_length=400)],
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Response:
    return Json(await service.browser.find(query, limit=limit))


@router.get("/file", **_route(responses.FileState, "Get a file under review"))
async def get_file(
    service: Service,
    file_path: FilePath,
    rev: Annotated[int | None, Query(ge=0, description="The file as it was at this revision.")] = None,
) -> Response:
    return Json(await service.files.state(file_path, rev))


@router.post(
    "/stamps",
    **_route(
        responses.Stamps, "Check whether files and folders on disk have changed", requests.StampsRequest
    ),
)
async def get_stamps(request: Request, service: Service) -> Response:
    body = await _read(request, requests.StampsRequest)
    return Json(await service.files.stamps(body.paths))


@router.get("/content", **_route(bytes, "Get a file's bytes"))
async def get_content(
    service: Service,
    file_path: FilePath,
    of: Annotated[
        Literal["buffer", "base"], Query(description="The proposed content, or that on disk.")
    ] = "buffer",
) -> Response:
    """The bytes have no media type of their own, so that no browser shows them as a document of this server."""
    content = await service.files.content(file_path, base=of == "base")
    return Response(content, media_type="application/octet-stream")


@router.get("/change_log", **_route(responses.ChangeLog, "Get a file's changes"))
async def get_change_log(file_path: FilePath, service: Service) -> Response:
    return Json(await service.files.change_log(file_path))


@router.get("/pending", **_route(responses.PendingFiles, "List files with undecided or unsaved changes"))
async def get_pending(service: Service) -> Response:
    return Json(await service.overview.pending())


# -- the review ---------------------------------------------------------------------------------------


@router.post("/edit", **_route(responses.FileState, "Apply user edits", requests.EditRequest))
async def edit(request: Request, service: Service) -> Response:
    return Json(await service.decisions.edit(await _read(request, requests.EditRequest)))


@router.post("/decide", **_route(responses.FileState, "Decide on hunks or a file", requests.Decision))
async def decide(request: Request, service: Service) -> Response:
    return Json(await service.decisions.decide(await _read(request, requests.Decision)))


@router.post("/decide_all", **_route(responses.DecidedFiles, "Decide on several files", requests.DecideAll))
async def decide_all(request: Request, service: Service) -> Response:
    return Json(await service.decisions.decide_all(await _read(request, requests.DecideAll)))


@router.post("/undo", **_route(responses.FileState, "Undo a file's latest change", requests.UndoRequest))
async def undo(request: Request, service: Service) -> Response:
    body = await _read(request, requests.UndoRequest)
    return Json(await service.decisions.undo(body.file_path, body.rev))


@router.post(
    "/redo", **_route(responses.FileState, "Redo a file's latest undone change", requests.UndoRequest)
)
async def redo(request: Request, service: Service) -> Response:
    body = await _read(request, requests.UndoRequest)
    return Json(await service.decisions.undo(body.file_path, body.rev, redo=True))


@router.post(
    "/apply",
    **_route(
        responses.ApplyResponse, "Save a job's accepted hunks and reject the rest", requests.ApplyRequest
    ),
)
async def apply(request: Request, service: Service) -> Response:
    body = await _read(request, requests.ApplyRequest)
    return Json(await service.jobs.apply(body.session_id, body.job_id, body.accepted_hunk_ids))


@router.post("/save", **_route(responses.SavedFiles, "Save files", requests.SaveRequest))
async def save(request: Request, service: Service) -> Response:
    body = await _read(request, requests.SaveRequest)
    revs = {file.file_path: file.rev for file in body.files if file.rev is not None}
    overwrite = [file.file_path for file in body.files if file.overwrite]
    paths = [file.file_path for file in body.files]
    return Json(await service.decisions.save(paths, revs=revs, overwrite=overwrite))


# -- checkpoints --------------------------------------------------------------------------------------


@router.get("/checkpoints", **_route(responses.CheckpointList, "List checkpoints"))
async def list_checkpoints(
    service: Service,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[str, Query(max_length=64, description="Only those older than this checkpoint.")] = "",
    session_id: Annotated[
        str, Query(max_length=64, description="Only those of this session of a review, chat or agent.")
    ] = "",
) -> Response:
    return Json(await service.overview.checkpoints(limit=limit, before=before, session=session_id))


@router.get("/checkpoints/{checkpoint_id}", **_route(CheckpointView, "Get a checkpoint"))
async def get_checkpoint(checkpoint_id: Id, service: Service) -> Response:
    return Json(await service.checkpoints.get(checkpoint_id))


@router.get(
    "/checkpoints/{checkpoint_id}/diff3",
    **_route(responses.Diff3View, "Get a file as it is, as it was, and as proposed"),
)
async def get_diff3(checkpoint_id: Id, file_path: FilePath, service: Service) -> Response:
    return Json(await service.checkpoints.diff3(checkpoint_id, file_path))


@router.post(
    "/checkpoints/{checkpoint_id}/rollback",
    **_route(responses.RollbackView, "Roll back a run", requests.RollbackRequest),
)
async def roll_back(request: Request, checkpoint_id: Id, service: Service) -> Response:
    return Json(
        await service.checkpoints.roll_back(checkpoint_id, await _read(request, requests.RollbackRequest))
    )


@router.post(
    "/checkpoints/{checkpoint_id}/undo",
    **_route(responses.RewindView, "Undo a run in the files", requests.UndoRunRequest),
)
async def undo_run(request: Request, checkpoint_id: Id, service: Service) -> Response:
    return Json(await service.rewinds.undo(checkpoint_id, await _read(request, requests.UndoRunRequest)))


@router.post(
    "/checkpoints/{checkpoint_id}/redo",
    **_route(responses.RewindView, "Redo a run that was undone", requests.UndoRunRequest),
)
async def redo_run(request: Request, checkpoint_id: Id, service: Service) -> Response:
    return Json(await service.rewinds.redo(checkpoint_id, await _read(request, requests.UndoRunRequest)))


@router.get("/operations/{operation}", **_route(responses.OperationView, "See how far an undo has come"))
async def get_operation(operation: Id, service: Service) -> Response:
    return Json(service.rewinds.progress(operation))


@router.post(
    "/operations/{operation}/stop", **_route(responses.OperationView, "Stop an undo", requests.NoFields)
)
async def stop_operation(operation: Id, service: Service) -> Response:
    return Json(service.rewinds.stop(operation))


@router.post(
    "/rewind",
    **_route(responses.RewindView, "Undo the runs of a session since a moment", requests.RewindRequest),
)
async def rewind(request: Request, service: Service) -> Response:
    return Json(await service.rewinds.rewind(await _read(request, requests.RewindRequest)))
