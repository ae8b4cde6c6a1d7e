"""Jobs that propose changes, and the review of what they propose, over HTTP: docs/review-api.md.

Each route reads its body as a struct, asks the desk once, and answers with a struct. What the desk refuses is told with the
status that ``newel.review_jobs.errors`` gives it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import anyio
import msgspec
from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from newel.agent.errors import NewelError
from newel.review.serialize import CheckpointView
from newel.review_jobs import schemas as p
from newel.review_jobs.errors import BadRequest, Unprocessable, problem
from newel.review_jobs.limits import ReviewLimits
from newel.tools.review.clarify_user import NO_USER_ANSWER
from newel.web.event_stream import MAX_WAIT, Events, EventStream, resumed, until
from newel.web.http_schema import WRITES, Failure, Json, answers, body_of, failed
from newel.web.ports import Desk

if TYPE_CHECKING:
    from newel.review_jobs.service import ReviewService

KINDS: Final[list[type]] = [
    *(
        p.SessionCreated,
        p.SessionView,
        p.SessionList,
        p.JobStarted,
        p.JobList,
        p.JobView,
        p.EventsPage,
        p.Applied,
    ),
    *(
        p.FileStamp,
        p.FolderView,
        p.FoundFiles,
        p.ChangeLog,
        p.PendingFiles,
        p.SavedFiles,
        p.CheckpointList,
        p.Diff3View,
        p.RollbackView,
        p.JobEnd,
    ),
    *(p.RunRequest, p.ClarifyRequest, p.ApplyRequest, p.EditRequest, p.Decision, p.UndoRequest),
    *(p.DecideAll, p.DecidedFiles),
    *(p.SaveRequest, p.RollbackRequest, p.NoFields, p.FileState, CheckpointView, ReviewLimits),
]
"""The structs that the routes name."""

Id = Annotated[str, Path(max_length=64)]
FilePath = Annotated[str, Query(max_length=4096, description="Relative to the project.")]
T = TypeVar("T")


def agent_routes(desk: Desk, closing: anyio.Event) -> APIRouter:
    """All routes under ``/api/agent/``."""
    router = APIRouter(prefix="/api/agent")
    _add_sessions(router, desk)
    _add_jobs(router, desk)
    _add_events(router, desk, closing)
    _add_files(router, desk)
    _add_changes(router, desk)
    _add_checkpoints(router, desk)
    return router


# -- what the routes have in common -------------------------------------------------------------------


def _route(
    answer: type, summary: str, body: type | None = None, stream: tuple[str, ...] = ()
) -> dict[str, Any]:
    """What FastAPI is told of a route."""
    failures = {404, 409, 422, 500, 503} | set(WRITES if body is not None else ())
    return {
        "responses": answers(answer, *sorted(failures), stream=stream),
        "response_class": Response,
        "openapi_extra": body_of(body) if body is not None else None,
        "summary": summary,
    }


async def _looked(desk: Desk, look: Callable[[ReviewService], Awaitable[object]]) -> Response:
    """What the desk answers, or why it does not."""

    async def answer(opened: ReviewService) -> Response:
        return Json(await look(opened))

    return await _answered(desk, answer)


async def _answered(desk: Desk, answer: Callable[[ReviewService], Awaitable[Response]]) -> Response:
    async def ask() -> Response:
        async with desk() as opened:
            return await answer(opened)

    return await _told(ask)


async def _told(answer: Callable[[], Awaitable[Response]]) -> Response:
    """An answer, or what was wrong with the request."""
    try:
        return await answer()
    except NewelError as error:
        status, told = problem(error)
        return failed(status, told.code, told.message)


async def _done(
    desk: Desk, request: Request, kind: type[T], do: Callable[[ReviewService, T], Awaitable[object]]
) -> Response:
    """What the desk answers to a request's body."""

    async def read_and_do(opened: ReviewService) -> object:
        return await do(opened, _read(await request.body(), kind))

    return await _looked(desk, read_and_do)


def _read(body: bytes, kind: type[T]) -> T:
    """The body as a struct; an empty one is an object without fields. Raises ``BadRequest`` and ``Unprocessable``."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise Unprocessable(f"The body has the wrong shape: {error}.") from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(f"The body is no JSON that can be read: {error}.") from error


# -- sessions and jobs --------------------------------------------------------------------------------


def _add_sessions(router: APIRouter, desk: Desk) -> None:
    @router.post("/sessions", **_route(p.SessionCreated, "Begin a session", p.NoFields))
    async def create_session(request: Request) -> Response:
        return await _done(desk, request, p.NoFields, lambda desk, _: desk.create_session())

    @router.get("/sessions", **_route(p.SessionList, "The sessions"))
    async def sessions() -> Response:
        async def listed(desk: ReviewService) -> p.SessionList:
            return p.SessionList(sessions=tuple(await desk.sessions()))

        return await _looked(desk, listed)

    @router.get("/sessions/{session_id}", **_route(p.SessionView, "A session"))
    async def session(session_id: Id) -> Response:
        return await _looked(desk, lambda desk: desk.session(session_id))

    @router.post("/sessions/{session_id}/archive", **_route(p.SessionView, "Put a session away", p.NoFields))
    async def archive(request: Request, session_id: Id) -> Response:
        return await _done(desk, request, p.NoFields, lambda desk, _: desk.archive(session_id))


def _add_jobs(router: APIRouter, desk: Desk) -> None:
    @router.post("/run", **_route(p.JobStarted, "Start a job", p.RunRequest))
    async def run(request: Request) -> Response:
        return await _done(desk, request, p.RunRequest, lambda desk, body: desk.run(body))

    @router.get("/jobs", **_route(p.JobList, "The jobs of all sessions"))
    async def jobs(limit: Annotated[int, Query(ge=1, le=500)] = 50) -> Response:
        return await _looked(desk, lambda desk: desk.jobs(limit=limit))

    @router.get("/jobs/{job_id}", **_route(p.JobView, "A job, with what it proposes"))
    async def job(job_id: Id) -> Response:
        return await _looked(desk, lambda desk: desk.job(job_id))

    @router.post("/jobs/{job_id}/clarify", **_route(p.JobStarted, "Answer a question", p.ClarifyRequest))
    async def clarify(request: Request, job_id: Id) -> Response:
        def answer(desk: ReviewService, body: p.ClarifyRequest) -> Awaitable[p.JobStarted]:
            skipped = body.answer is None or body.answer == NO_USER_ANSWER
            return desk.clarify(job_id, body.question_id, None if skipped else body.answer)

        return await _done(desk, request, p.ClarifyRequest, answer)

    @router.post("/jobs/{job_id}/rerun", **_route(p.JobStarted, "Run a job again", p.NoFields))
    async def rerun(request: Request, job_id: Id) -> Response:
        return await _done(desk, request, p.NoFields, lambda desk, _: desk.rerun(job_id))

    @router.post("/jobs/{job_id}/cancel", **_route(p.JobStarted, "End a job", p.NoFields))
    async def cancel(request: Request, job_id: Id) -> Response:
        return await _done(desk, request, p.NoFields, lambda desk, _: desk.cancel(job_id))

    @router.get("/limits", **_route(ReviewLimits, "The limits in force"))
    async def limits() -> Response:
        async def in_force(desk: ReviewService) -> ReviewLimits:
            return desk.limits

        return await _looked(desk, in_force)


def _add_events(router: APIRouter, desk: Desk, closing: anyio.Event) -> None:
    @router.get(
        "/jobs/{job_id}/events",
        **_route(p.EventsPage, "The events of a job after a number", stream=("event", "error", "end")),
    )
    async def events(
        request: Request,
        job_id: Id,
        *,
        cursor: Annotated[int, Query(ge=0, le=2**53, description="The number of the last event known.")] = 0,
        limit: Annotated[int, Query(ge=1, le=500, description="Events in one answer.")] = 100,
        wait: Annotated[
            float, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for an event if there is none.")
        ] = 0,
        last_event_id: Annotated[
            str | None, Header(description="The number of the last event known, for a stream.")
        ] = None,
    ) -> Response:
        """JSON, or with ``Accept: text/event-stream`` a stream, in which each ``event`` has its number as id, and ``end`` is
        the last.
        """

        async def page() -> Response:
            opened = await _opened(desk)
            found = await opened.events(job_id, cursor, limit=limit)
            if wait and not found.events:
                async with until(closing.wait):
                    found = await opened.events(job_id, found.next_cursor, limit=limit, wait=wait)
            return Json(found)

        if "text/event-stream" not in request.headers.get("accept", ""):
            return await _told(page)
        known = await _looked(desk, lambda desk: desk.job(job_id))
        start = resumed(last_event_id, cursor)
        if known.status_code != 200:
            return known
        return EventStream(lambda send: _stream(desk, job_id, start, send), closing)


async def _opened(desk: Desk) -> ReviewService:
    """For what waits for something to happen, whatever becomes of the host meanwhile."""
    async with desk() as opened:
        return opened


async def _stream(desk: Desk, job_id: str, cursor: int, send: Events) -> None:
    opened = await _opened(desk)
    try:
        while True:
            page = await opened.events(job_id, cursor, wait=MAX_WAIT)
            for each in page.events:
                await send("event", each, number=each.cursor)
            cursor = page.next_cursor
            if not page.events and page.status in {"completed", "failed"}:
                break
        error = (await opened.job(job_id)).error
    except NewelError as error:  # the job was forgotten, or the journal cannot be read any more
        await send("error", Failure(error.code, str(error)))
    else:
        await send("end", p.JobEnd(job_id=job_id, status=page.status, error=error))


# -- the project's files ------------------------------------------------------------------------------


def _add_files(router: APIRouter, desk: Desk) -> None:
    @router.get("/tree", **_route(p.FolderView, "A folder of the project"))
    async def tree(
        folder: Annotated[
            str, Query(max_length=4096, description="Relative to the project; empty for its own.")
        ] = "",
        limit: Annotated[int, Query(ge=1, le=10_000)] = 2000,
    ) -> Response:
        return await _looked(desk, lambda desk: desk.browser.folder(folder, limit=limit))

    @router.get("/find", **_route(p.FoundFiles, "Files by words of their names"))
    async def find(
        query: Annotated[str, Query(max_length=400)],
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> Response:
        return await _looked(desk, lambda desk: desk.browser.find(query, limit=limit))

    @router.get("/file", **_route(p.FileState, "A file under review"))
    async def file(
        file_path: FilePath,
        rev: Annotated[int | None, Query(ge=0, description="As it was at that revision.")] = None,
    ) -> Response:
        return await _looked(desk, lambda desk: desk.file(file_path, rev))

    @router.get("/stamp", **_route(p.FileStamp, "Whether a file on the disk has changed"))
    async def stamp(file_path: FilePath) -> Response:
        return await _looked(desk, lambda desk: desk.states.stamp(file_path))

    @router.get("/content", **_route(bytes, "A file's bytes"))
    async def content(
        file_path: FilePath,
        of: Annotated[
            Literal["buffer", "base"], Query(description="As it would be, or as it is on the disk.")
        ] = "buffer",
    ) -> Response:
        """Bytes without a type: nothing shall take them for a document of this host."""

        async def read(desk: ReviewService) -> Response:
            found = await desk.states.content(file_path, base=of == "base")
            return Response(found, media_type="application/octet-stream")

        return await _answered(desk, read)

    @router.get("/change_log", **_route(p.ChangeLog, "The changes of a file"))
    async def change_log(file_path: FilePath) -> Response:
        return await _looked(desk, lambda desk: desk.change_log(file_path))

    @router.get("/pending", **_route(p.PendingFiles, "All files that wait for a decision or a save"))
    async def pending() -> Response:
        return await _looked(desk, lambda desk: desk.pending())


# -- the review ---------------------------------------------------------------------------------------


def _add_changes(router: APIRouter, desk: Desk) -> None:
    @router.post("/edit", **_route(p.FileState, "Take over what the user typed", p.EditRequest))
    async def edit(request: Request) -> Response:
        return await _done(desk, request, p.EditRequest, lambda desk, body: desk.edit(body))

    @router.post("/decide", **_route(p.FileState, "Decide on a hunk, or on a file", p.Decision))
    async def decide(request: Request) -> Response:
        return await _done(desk, request, p.Decision, lambda desk, body: desk.decide(body))

    @router.post("/decide_all", **_route(p.DecidedFiles, "Decide on all of several files", p.DecideAll))
    async def decide_all(request: Request) -> Response:
        return await _done(desk, request, p.DecideAll, lambda desk, body: desk.decide_all(body))

    @router.post("/undo", **_route(p.FileState, "Take the latest change of a file back", p.UndoRequest))
    async def undo(request: Request) -> Response:
        return await _done(
            desk, request, p.UndoRequest, lambda desk, body: desk.undo(body.file_path, body.rev)
        )

    @router.post("/redo", **_route(p.FileState, "Make it again", p.UndoRequest))
    async def redo(request: Request) -> Response:
        return await _done(
            desk, request, p.UndoRequest, lambda desk, body: desk.redo(body.file_path, body.rev)
        )

    @router.post(
        "/apply", **_route(p.Applied, "Save a job's accepted hunks, reject the others", p.ApplyRequest)
    )
    async def apply(request: Request) -> Response:
        return await _done(
            desk,
            request,
            p.ApplyRequest,
            lambda desk, body: desk.apply(body.session_id, body.job_id, body.accepted_hunk_ids),
        )

    @router.post("/save", **_route(p.SavedFiles, "Save files", p.SaveRequest))
    async def save(request: Request) -> Response:
        async def write(desk: ReviewService, body: p.SaveRequest) -> p.SavedFiles:
            revs = {each.file_path: each.rev for each in body.files if each.rev is not None}
            saved = await desk.save([each.file_path for each in body.files], revs=revs)
            return p.SavedFiles(saved_files=tuple(saved))

        return await _done(desk, request, p.SaveRequest, write)


# -- checkpoints --------------------------------------------------------------------------------------


def _add_checkpoints(router: APIRouter, desk: Desk) -> None:
    @router.get("/checkpoints", **_route(p.CheckpointList, "The checkpoints"))
    async def checkpoints(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        before: Annotated[str, Query(max_length=64, description="Only those before this checkpoint.")] = "",
        session_id: Annotated[
            str,
            Query(
                max_length=64, description="Only those of this session, be it a review, a chat or an agent."
            ),
        ] = "",
    ) -> Response:
        return await _looked(
            desk, lambda desk: desk.checkpoints(limit=limit, before=before, session=session_id)
        )

    @router.get("/checkpoints/{checkpoint_id}", **_route(CheckpointView, "A checkpoint"))
    async def checkpoint(checkpoint_id: Id) -> Response:
        return await _looked(desk, lambda desk: desk.checkpoint(checkpoint_id))

    @router.get(
        "/checkpoints/{checkpoint_id}/diff3", **_route(p.Diff3View, "A file now, before, and as proposed")
    )
    async def diff3(checkpoint_id: Id, file_path: FilePath) -> Response:
        return await _looked(desk, lambda desk: desk.rollbacks.diff3(checkpoint_id, file_path))

    @router.post(
        "/checkpoints/{checkpoint_id}/rollback",
        **_route(p.RollbackView, "Take a run back", p.RollbackRequest),
    )
    async def rollback(request: Request, checkpoint_id: Id) -> Response:
        return await _done(
            desk, request, p.RollbackRequest, lambda desk, body: desk.rollback(checkpoint_id, body)
        )
