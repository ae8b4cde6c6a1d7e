"""Review jobs: start, follow, answer, cancel, rerun and apply them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio

from newel.agent.messages import new_id
from newel.jobs.engine import FINAL
from newel.review_jobs import apply, rerun
from newel.review_jobs.dependencies import ReviewDependencies
from newel.review_jobs.errors import BadRequest, NoSuchJob, QuestionClosed, WrongState
from newel.review_jobs.files import ReviewFiles
from newel.review_jobs.job_registry import JobRegistry
from newel.review_jobs.journal import (
    HIDDEN,
    KIND,
    JobParams,
    decode,
    event,
    find_jobs,
    queue_of,
)
from newel.review_jobs.overlay_workspace import OverlayWorkspace
from newel.review_jobs.presenters import job_summary, job_view
from newel.review_jobs.propose import Proposer
from newel.review_jobs.requests import RunRequest
from newel.review_jobs.responses import Applied, EventsPage, EventView, JobList, JobStarted, JobView
from newel.review_jobs.retention import Retention
from newel.review_jobs.session_store import SessionStore
from newel.review_jobs.validation import check_answer, check_run
from newel.text.json import to_json
from newel.tools.review import NO_USER_ANSWER

PAGE: Final = 500
"""Events, or jobs, of one page at most."""
CANCELLED: Final = "Cancelled by the user."
"""The error of a cancelled job."""


class JobService:
    """The jobs of all sessions. Methods raise ``NoSuchJob`` for an unknown id."""

    def __init__(
        self,
        dependencies: ReviewDependencies,
        store: SessionStore,
        registry: JobRegistry,
        retention: Retention,
        files: ReviewFiles,
    ) -> None:
        self._dependencies = dependencies
        self._engine = dependencies.engine
        self._limits = dependencies.limits
        self._store = store
        self._registry = registry
        self._retention = retention
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
        self._store.get(request.session_id)
        await check_run(request, self._limits, self._dependencies.workspace)
        return await self._submit(
            JobParams(
                session=request.session_id,
                key=f"review/{new_id()}",
                instruction=request.instruction,
                context_rows=request.context_rows,
                max_tool_calls=request.tool_config.max_tool_calls or self._limits.max_tool_calls_per_job,
            )
        )

    async def rerun(self, job_id: str) -> JobStarted:
        """Run a job again on the changed files and show the model the changes; see ``rerun.prepare``."""
        journal = await self._registry.get(job_id)
        async with journal.decision_lock:
            params = await rerun.prepare(self._files, journal)
            started = await self._submit(params)
            await journal.notify("rerun.started", job_id=job_id, new_job_id=started.job_id)
        for path in journal.state.hashes:
            await self._registry.publish(await self._files.get(path), "reject")
        return started

    async def _submit(self, params: JobParams) -> JobStarted:
        jobs = await find_jobs(self._engine, params.session)
        live = await self._registry.load(job for job in jobs if job.state not in FINAL)
        self._retention.check_job_limit(sum(not journal.state.is_finished for _, journal in live))
        await self._store.activate(params.session)
        job = await self._engine.submit(KIND, to_json(params), queue=queue_of(params.session), key=params.key)
        await self._registry.export_trace(job)
        await self._retention.collect()
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
        """Up to ``limit`` events after number ``cursor``; if there are none, those of the next ``wait`` seconds. The
        status of a page is never behind its events: an empty page with a final status is the last. Raises
        ``BadRequest``.
        """
        if cursor < 0:
            raise BadRequest("The cursor must be the number of an event, or 0 for the beginning.")
        await self._registry.get(job_id)  # no waiting for an unknown job
        deadline = anyio.current_time() + wait
        while True:
            remaining = deadline - anyio.current_time()
            entries = await self._engine.read(
                job_id, cursor, limit=min(max(limit, 1), PAGE), wait=max(remaining, 0.0)
            )
            state = (await self._registry.get(job_id)).state
            events: list[EventView] = []
            for entry in entries:
                if entry.seq > state.seq:
                    break  # just being added: the status does not include it yet
                cursor = entry.seq
                decoded = decode(entry.data)
                if decoded.type != HIDDEN:
                    events.append(
                        EventView(cursor=entry.seq, type=decoded.type, ts=decoded.ts, data=decoded.data)
                    )
            is_behind = cursor < state.seq
            if events or (not is_behind and (state.is_finished or remaining <= 0)):
                return EventsPage(
                    job_id=job_id, status=state.status, next_cursor=cursor, events=tuple(events)
                )

    async def clarify(self, job_id: str, question_id: str, answer: str | None) -> JobStarted:
        """Answer a question, or skip it with None. Idempotent. Raises ``QuestionClosed`` and ``TooLarge``."""
        check_answer(answer, self._limits)
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

    async def apply(self, session_id: str, job_id: str, accepted_hunk_ids: Sequence[str]) -> Applied:
        """Save the accepted hunks of a job and reject the others; see ``apply.apply``."""
        self._store.get(session_id)
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
