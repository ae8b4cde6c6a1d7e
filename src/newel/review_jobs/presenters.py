"""Sessions and jobs as clients see them."""

from __future__ import annotations

from collections.abc import Sequence

import anyio.to_thread

from newel.jobs.engine import Job
from newel.review.serialize import bundle
from newel.review.store.ledger import Ledger
from newel.review_jobs.journal import JobJournal
from newel.review_jobs.propose import reviews_of
from newel.review_jobs.schemas import ChatEntry, JobView, PendingReview, SessionView
from newel.review_jobs.session_store import Session

Known = tuple[Job, JobJournal]


def session_view(session: Session, jobs: Sequence[Known]) -> SessionView:
    """A session with its jobs, the oldest first."""
    return SessionView(
        id=session.id,
        status=session.status,
        created_at=session.created_at,
        updated_at=max((job.updated for job, _ in jobs), default=session.created_at),
        chat=tuple(chat_of(jobs)),
        context_rows=tuple(jobs[-1][1].params.context_rows) if jobs else (),
        last_job_id=jobs[-1][0].id if jobs else None,
        pending_review=pending_of(jobs),
    )


def pending_of(jobs: Sequence[Known]) -> PendingReview | None:
    """The review that waits in a session: that of the latest of its jobs which has one."""
    for _, journal in reversed(jobs):
        if journal.state.status == "awaiting_review":
            return PendingReview(job_id=journal.job, files=tuple(journal.state.hashes))
    return None


async def job_view(journal: JobJournal, ledger: Ledger) -> JobView:
    """A job as it stands."""
    state, params = journal.state, journal.params
    shown = None
    if state.hashes and (state.is_finished or state.status == "awaiting_review"):
        reviews = await anyio.to_thread.run_sync(reviews_of, ledger, journal.job, list(state.hashes))
        shown = bundle(journal.job, reviews)
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
        diff_bundle=shown,
        question=state.question if state.status == "waiting_for_user" else None,
        checkpoint_id=state.checkpoint_id,
        applied_files=tuple(state.applied) if state.applied is not None else None,
        error=state.error,
        rerun_of=params.rerun_of or None,
    )


def chat_of(jobs: Sequence[Known]) -> list[ChatEntry]:
    """What was said in jobs: each instruction, and what came of it."""
    said: list[ChatEntry] = []
    for job, journal in jobs:
        state = journal.state
        said.append(ChatEntry(role="user", text=journal.params.instruction, job_id=job.id, ts=job.created))
        words = state.error or state.summary
        if state.applied:
            kept = ", ".join(
                f"{each.file_path}: {each.applied_hunks} kept, {each.rejected_hunks} rejected"
                for each in state.applied
            )
            words = f"{words}\n\nReviewed: {kept}."
        if words:
            ts = state.finished_at or state.started_at or job.created
            said.append(
                ChatEntry(role="assistant", text=words, job_id=job.id, ts=ts, tool_calls=state.tool_calls)
            )
    return said
