"""Sessions and jobs as clients see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio.to_thread

from newel.jobs.engine import Job
from newel.review.serialize import bundle
from newel.review.store.ledger import Ledger
from newel.review_jobs.job_registry import LoadedJob
from newel.review_jobs.journal import JobJournal, params_of
from newel.review_jobs.propose import reviews_of
from newel.review_jobs.responses import (
    ChatEntry,
    JobSummary,
    JobView,
    PendingReview,
    SessionSummary,
    SessionView,
)
from newel.review_jobs.session_store import Session
from newel.text.sanitize import plain_line

TITLE_LENGTH: Final = 80


def session_view(session: Session, jobs: Sequence[LoadedJob]) -> SessionView:
    """A session with its jobs, the oldest first."""
    return SessionView(
        id=session.id,
        status=session.status,
        created_at=session.created_at,
        updated_at=max((job.updated for job, _ in jobs), default=session.created_at),
        chat=tuple(chat_of(jobs)),
        context_rows=tuple(jobs[-1][1].params.context_rows) if jobs else (),
        last_job_id=jobs[-1][0].id if jobs else None,
        pending_review=_pending_review(jobs),
    )


def session_summary(session: Session, jobs: Sequence[Job], live: Sequence[LoadedJob]) -> SessionSummary:
    """A session with its jobs and those that have not ended, the oldest first."""
    return SessionSummary(
        id=session.id,
        status=session.status,
        created_at=session.created_at,
        updated_at=max((job.updated for job in jobs), default=session.created_at),
        title=plain_line(params_of(jobs[0]).instruction, TITLE_LENGTH) if jobs else "",
        jobs=len(jobs),
        last_job_id=jobs[-1].id if jobs else None,
        pending_review=_pending_review(live),
        asking_job_id=next(
            (job.id for job, journal in live if journal.state.status == "waiting_for_user"), None
        ),
    )


def _pending_review(jobs: Sequence[LoadedJob]) -> PendingReview | None:
    """The review of the latest job that awaits one."""
    for _, journal in reversed(jobs):
        if journal.state.status == "awaiting_review":
            return PendingReview(job_id=journal.job, files=tuple(journal.state.hashes))
    return None


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
    )


def job_summary(job: Job, journal: JobJournal) -> JobSummary:
    state = journal.state
    return JobSummary(
        id=job.id,
        session_id=journal.params.session,
        status=state.status,
        instruction=plain_line(journal.params.instruction, TITLE_LENGTH),
        created_at=state.created_at,
        finished_at=state.finished_at,
        files=len(state.hashes),
    )


def chat_of(jobs: Sequence[LoadedJob]) -> list[ChatEntry]:
    """The conversation of jobs: each instruction and its result."""
    entries: list[ChatEntry] = []
    for job, journal in jobs:
        state = journal.state
        entries.append(ChatEntry(role="user", text=journal.params.instruction, job_id=job.id, ts=job.created))
        text = state.error or state.summary
        if state.applied:
            files = ", ".join(
                f"{file.file_path}: {file.applied_hunks} kept, {file.rejected_hunks} rejected"
                for file in state.applied
            )
            text = f"{text}\n\nReviewed: {files}."
        if text:
            ts = state.finished_at or state.started_at or job.created
            entries.append(
                ChatEntry(role="assistant", text=text, job_id=job.id, ts=ts, tool_calls=state.tool_calls)
            )
    return entries
