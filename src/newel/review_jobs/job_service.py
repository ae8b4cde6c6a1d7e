"""Review jobs: start, follow, answer, cancel, rerun and apply them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from newel.agent.messages import new_id
from newel.agent.ports import AgentMode
from newel.jobs.engine import FINAL, Job
from newel.providers.routing import UnknownAgentMode, read_agent_mode
from newel.review.model.decisions import decided
from newel.review.model.file_review import FileReview, Lines
from newel.review.model.history import HistoryEntry, patched
from newel.review.model.patch import file_patch
from newel.review.model.revision import revisable
from newel.review.paths import checked_path
from newel.review.serialize import bundle, is_of
from newel.review.store.ledger import Ledger
from newel.review_jobs import apply
from newel.review_jobs.dependencies import ReviewDependencies, ReviewLimits
from newel.review_jobs.errors import (
    BadRequest,
    NoSuchJob,
    QuestionClosed,
    TooLarge,
    Unprocessable,
    WrongState,
)
from newel.review_jobs.files import ReviewFiles
from newel.review_jobs.job_registry import JobRegistry
from newel.review_jobs.journal import HIDDEN, KIND, JobJournal, JobParams, decode, event, find_jobs, queue_of
from newel.review_jobs.overlay_workspace import OverlayWorkspace
from newel.review_jobs.propose import Proposer, reviews_of
from newel.review_jobs.requests import ContextRow, HunkName, RunRequest
from newel.review_jobs.responses import (
    ApplyResponse,
    EventsPage,
    EventView,
    JobList,
    JobStarted,
    JobSummary,
    JobView,
)
from newel.review_jobs.sessions import SessionService
from newel.text.json import to_json
from newel.tools.review import NO_USER_ANSWER
from newel.workspace.port import Workspace

PAGE: Final = 500
"""Events, or jobs, of one page at most."""
CANCELLED: Final = "Cancelled by the user."
"""The error of a cancelled job."""

MAX_PATCH: Final = 64 << 10
"""Characters of the patch that the model is shown."""


class JobService:
    """The jobs of all sessions. Methods raise ``NoSuchJob`` for an unknown id."""

    def __init__(
        self,
        dependencies: ReviewDependencies,
        sessions: SessionService,
        registry: JobRegistry,
        files: ReviewFiles,
    ) -> None:
        self._dependencies = dependencies
        self._engine = dependencies.engine
        self._limits = dependencies.limits
        self._sessions = sessions
        self._registry = registry
        self._files = files

    async def get(self, job_id: str) -> JobView:
        return await job_view(await self._registry.get(job_id), self._dependencies.ledger)

    async def list(self, *, limit: int = PAGE) -> JobList:
        """The jobs of all sessions, the newest first."""
        jobs = await self._engine.find(kind=KIND, limit=limit + 1)
        loaded = await self._registry.load(jobs[:limit])
        return JobList(
            jobs=tuple(job_summary(job, journal) for job, journal in loaded), more=len(jobs) > limit
        )

    # -- start and end ------------------------------------------------------------------------------

    async def run(self, request: RunRequest) -> JobStarted:
        """Start a job. Raises ``NoSuchSession``, ``BadRequest``, ``TooLarge``, ``TooMany``, ``Unprocessable``."""
        self._sessions.store.get(request.session_id)
        await _check_run(request, self._limits, self._dependencies.workspace)
        await self._check_job_limit(request.session_id)
        revise = await self._prepare_revision(request.revise) if request.revise is not None else None
        return await self._submit(
            JobParams(
                session=request.session_id,
                key=f"review/{new_id()}",
                instruction=request.instruction,
                context_rows=request.context_rows,
                max_tool_calls=request.tool_config.max_tool_calls or self._limits.max_tool_calls_per_job,
                agent_mode=_mode(request) or self._dependencies.config.agent_mode,
                revise=revise,
            )
        )

    async def _prepare_revision(self, name: HunkName) -> HunkName:
        """Check that an agent may propose a hunk anew. One in conflict is rejected first, as for a rerun, so that the job
        works on the lines of the file. Raises ``ReviewError``; then nothing has changed.
        """
        review = await self._files.refresh(name.file_path)
        hunk = review.hunk(name.hunk_id)
        revisable(review, hunk.id)
        if hunk.conflict and hunk.is_shown:
            make = partial(decided, hunk_ids=[hunk.id], verdict="reject")
            change = partial(self._files.ledger.change, review.path, "reject", make, rev=review.rev)
            rejected = await anyio.to_thread.run_sync(partial(change, hunks=(hunk.id,)))
            await self._registry.publish(rejected.review, "reject", [hunk.id])
        return HunkName(file_path=review.path, hunk_id=hunk.id)

    async def rerun(self, job_id: str) -> JobStarted:
        """Run a job again on the changed files and show the model the changes; see ``_prepare_rerun``. Raises ``TooMany``, too."""
        journal = await self._registry.get(job_id)
        async with journal.decision_lock:
            await self._check_job_limit(journal.params.session)
            params = await _prepare_rerun(self._files, journal)
            started = await self._submit(params)
            await journal.notify("rerun.started", job_id=job_id, new_job_id=started.job_id)
        for path in journal.state.hashes:
            await self._registry.publish(await self._files.get(path), "reject")
        return started

    async def _check_job_limit(self, session: str) -> None:
        """Raises ``TooMany``. Before hunks are rejected for a job, which there would not be then."""
        jobs = await find_jobs(self._engine, session)
        live = await self._registry.load(job for job in jobs if job.state not in FINAL)
        self._sessions.check_job_limit(sum(not journal.state.is_finished for _, journal in live))

    async def _submit(self, params: JobParams) -> JobStarted:
        await self._sessions.store.activate(params.session)
        job = await self._engine.submit(KIND, to_json(params), queue=queue_of(params.session), key=params.key)
        await self._registry.export_trace(job)
        await self._sessions.collect()
        return JobStarted(job_id=job, status="queued")

    async def cancel(self, job_id: str) -> JobStarted:
        """End a job that is queued, runs or asks; its earlier proposals stay under review. Idempotent. Raises
        ``WrongState``.
        """
        journal = await self._registry.get(job_id)
        async with journal.decision_lock:
            state = journal.state
            if state.error != CANCELLED:
                if state.status == "awaiting_review" or state.is_finished:
                    raise WrongState(f"Job {job_id} cannot be cancelled: it is {state.status}.")
                await self._engine.cancel(job_id, CANCELLED)
                await journal.annotate(event("job.failed", error=CANCELLED))
                overlay = OverlayWorkspace(self._dependencies.workspace, self._dependencies.ledger)
                await Proposer(self._dependencies, journal, overlay).withdraw_unrecorded()
        await self._registry.release(journal)
        return JobStarted(job_id=job_id, status=journal.state.status)

    # -- while it runs ------------------------------------------------------------------------------

    async def events(
        self, job_id: str, cursor: int = 0, *, limit: int = PAGE, wait: float = 0.0
    ) -> EventsPage:
        """Up to ``limit`` events after number ``cursor``; if there are none, those of the next ``wait`` seconds. A page
        that is not full has every event that led to its status; an empty one with a final status is the last. Raises
        ``BadRequest``.
        """
        if cursor < 0:
            raise BadRequest("The cursor must be the number of an event, or 0 for the beginning.")
        await self._registry.get(job_id)  # no waiting for an unknown job
        deadline = anyio.current_time() + wait
        room = min(max(limit, 1), PAGE)
        events: list[EventView] = []
        while True:
            remaining = deadline - anyio.current_time()
            entries = await self._engine.read(
                job_id, cursor, limit=room - len(events), wait=0.0 if events else max(remaining, 0.0)
            )
            state = (await self._registry.get(job_id)).state
            for entry in entries:
                if entry.seq > state.seq:
                    break  # just being added: the status does not include it yet
                cursor = entry.seq
                decoded = decode(entry.data)
                if decoded.type != HIDDEN:
                    events.append(
                        EventView(cursor=entry.seq, type=decoded.type, ts=decoded.ts, data=decoded.data)
                    )
            is_behind = cursor < state.seq  # more was added after the read
            if len(events) == room or (not is_behind and (events or state.is_finished or remaining <= 0)):
                return EventsPage(
                    job_id=job_id, status=state.status, next_cursor=cursor, events=tuple(events)
                )

    async def clarify(self, job_id: str, question_id: str, answer: str | None) -> JobStarted:
        """Answer a question, or skip it with None. Idempotent. Raises ``QuestionClosed`` and ``TooLarge``."""
        _check_answer(answer, self._limits)
        journal = await self._registry.get(job_id)
        text = NO_USER_ANSWER if answer is None else answer
        async with journal.decision_lock:
            state = journal.state
            asked = state.question.question_id if state.question is not None else None
            if asked == question_id and state.status == "waiting_for_user":
                await journal.annotate(
                    event(
                        "clarification.received", question_id=question_id, answer=text, skipped=answer is None
                    )
                )
                await journal.resume()
            elif state.answers.get(question_id) != text:
                raise QuestionClosed(f"Job {job_id} is not waiting for an answer to question {question_id}.")
        return JobStarted(job_id=job_id, status=journal.state.status)

    # -- the end of a review ------------------------------------------------------------------------

    async def apply(self, session_id: str, job_id: str, accepted_hunk_ids: Sequence[str]) -> ApplyResponse:
        """Save the accepted hunks of a job and reject the others; see ``apply.apply``."""
        self._sessions.store.get(session_id)
        journal = await self._registry.get(job_id)
        if journal.params.session != session_id:
            raise NoSuchJob(f"Session {session_id} has no job {job_id}.")
        async with journal.decision_lock:
            was_finished = journal.state.is_finished
            applied = await apply.apply(self._files, journal, accepted_hunk_ids)
        if not was_finished:
            await self._registry.release(journal)
            for file in applied.applied_files:
                await self._registry.publish(await self._files.get(file.file_path), "save")
        return applied

    async def complete_decided(self, paths: Sequence[str] = ()) -> None:
        """End the reviews, of jobs with one of these files or of all jobs, whose hunks are all saved or rejected."""
        for journal in self._registry.awaiting_review(paths):
            async with journal.decision_lock:
                await apply.complete_if_decided(self._files, journal)
            if journal.state.is_finished:
                await self._registry.release(journal)


async def job_view(journal: JobJournal, ledger: Ledger) -> JobView:
    state, params = journal.state, journal.params
    diff_bundle = None
    if state.hashes and (state.is_finished or state.status == "awaiting_review"):
        reviews = await anyio.to_thread.run_sync(reviews_of, ledger, journal.job, list(state.hashes))
        diff_bundle = bundle(journal.job, reviews)
    return JobView(
        id=journal.job,
        session_id=params.session,
        status=state.status,
        instruction=params.instruction,
        agent_mode=params.agent_mode,
        context_rows=tuple(params.context_rows),
        created_at=state.created_at,
        started_at=state.started_at,
        finished_at=state.finished_at,
        cursor=state.seq,
        summary=state.summary,
        proposed_edits=tuple(state.edits),
        diff_bundle=diff_bundle,
        question=state.question if state.status == "waiting_for_user" else None,
        checkpoint_id=state.checkpoint_id,
        applied_files=tuple(state.applied) if state.applied is not None else None,
        error=state.error,
        rerun_of=params.rerun_of or None,
        revise=params.revise,
    )


def job_summary(job: Job, journal: JobJournal) -> JobSummary:
    state = journal.state
    return JobSummary(
        id=job.id,
        session_id=journal.params.session,
        status=state.status,
        instruction=journal.params.title,
        created_at=state.created_at,
        finished_at=state.finished_at,
        files=len(state.hashes),
    )


# -- checks of requests -------------------------------------------------------------------------------


async def _check_run(request: RunRequest, limits: ReviewLimits, workspace: Workspace) -> None:
    """Check a request before anything is done. Raises ``BadRequest``, ``TooLarge``, ``Unprocessable`` and ``OutsideProject``."""
    if not request.instruction.strip():
        raise BadRequest("The instruction is empty.")
    if utf8_size(request.instruction) > limits.max_instruction_bytes:
        raise TooLarge(f"The instruction is longer than {limits.max_instruction_bytes} bytes.")
    size = sum(utf8_size(row.content) for row in request.context_rows)
    if len(request.context_rows) > limits.max_context_rows or size > limits.max_context_bytes:
        raise TooLarge(
            f"The request has {len(request.context_rows)} context rows of {size} bytes; the limit is "
            f"{limits.max_context_rows} rows of {limits.max_context_bytes} bytes."
        )
    for row in request.context_rows:
        await _check_row(row, workspace)
    max_tool_calls = request.tool_config.max_tool_calls
    if max_tool_calls is not None and not 1 <= max_tool_calls <= limits.max_tool_calls_cap:
        raise Unprocessable(f"max_tool_calls must be between 1 and {limits.max_tool_calls_cap}.")


def _mode(request: RunRequest) -> AgentMode | None:
    try:
        return read_agent_mode(request.agent_mode) if request.agent_mode is not None else None
    except UnknownAgentMode as error:
        raise BadRequest(str(error)) from error


async def _check_row(row: ContextRow, workspace: Workspace) -> None:
    if row.file_path is not None:
        await checked_path(workspace, row.file_path)
    first, last = row.start_line, row.end_line
    if (first is not None and first < 1) or (last is not None and last < (first or 1)):
        raise Unprocessable(f"Context row {row.id}: lines {first} to {last} do not exist.")


def _check_answer(answer: str | None, limits: ReviewLimits) -> None:
    """Raises ``TooLarge``."""
    if answer is not None and utf8_size(answer) > limits.max_instruction_bytes:
        raise TooLarge(f"The answer is longer than {limits.max_instruction_bytes} bytes.")


def utf8_size(text: str) -> int:
    """The bytes of a text as UTF-8; a lone surrogate counts, too."""
    return len(text.encode("utf-8", "surrogatepass"))


# -- running a job again ------------------------------------------------------------------------------


async def _prepare_rerun(files: ReviewFiles, journal: JobJournal) -> JobParams:
    """Reject the hunks that the change affects, except those with the user's own edits, and return the new job's
    parameters. All other hunks stay under review. Raises ``WrongState`` unless the job awaits review.
    """
    if journal.state.status != "awaiting_review":
        raise WrongState(f"Job {journal.job} cannot be run again: it is {journal.state.status}.")
    patches: list[str] = []
    for path in journal.state.hashes:
        review = await files.refresh(path)
        patches.append(await anyio.to_thread.run_sync(_patch, files, journal, review))
        await anyio.to_thread.run_sync(_reject_affected, files, journal.job, review)
    return msgspec.structs.replace(
        journal.params,
        key=f"{journal.params.key}/again/{journal.state.seq}",
        rerun_of=journal.job,
        changed="".join(patches)[:MAX_PATCH],
    )


def _patch(files: ReviewFiles, journal: JobJournal, review: FileReview) -> str:
    """The changes of a file since the job's last proposal, as a unified diff."""
    before = _base_after(files.ledger.entries(path=review.path), journal.state.entries)
    return file_patch(review.path, before, review.base)


def _base_after(entries: Sequence[HistoryEntry], ids: Collection[str]) -> Lines:
    """The base of a file after the last of the changes ``ids``."""
    review = FileReview(path="")
    base: Lines = ()
    for entry in entries:
        review = patched(review, entry.forward)
        if entry.id in ids:
            base = review.base
    return base


def _reject_affected(files: ReviewFiles, job: str, review: FileReview) -> None:
    hunks = tuple(
        hunk.id
        for hunk in review.hunks
        if hunk.conflict and hunk.is_shown and is_of(hunk, job) and not hunk.has_user_layer
    )
    if hunks:
        make = partial(decided, hunk_ids=hunks, verdict="reject")
        files.ledger.change(review.path, "reject", make, rev=review.rev, hunks=hunks)
