"""What there is to look at, in short: the sessions, and the files that wait for a decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from newel.jobs.engine import Job
from newel.jobs.review.journal import params_of
from newel.jobs.review.payloads import PendingFile, SessionSummary
from newel.jobs.review.sessions import Session
from newel.jobs.review.showing import Known, pending_of
from newel.review.ledger import FileReview
from newel.review.store import Ledger
from newel.review.text import text_hash
from newel.session.text import one_line

_TITLE: Final = 80


def session_summary(session: Session, jobs: Sequence[Job], live: Sequence[Known]) -> SessionSummary:
    """A session with its jobs, and those of them that have not ended, the oldest first."""
    return SessionSummary(
        id=session.id,
        status=session.status,
        created_at=session.created_at,
        updated_at=max((job.updated for job in jobs), default=session.created_at),
        title=one_line(params_of(jobs[0]).instruction, _TITLE) if jobs else "",
        jobs=len(jobs),
        last_job_id=jobs[-1].id if jobs else None,
        pending_review=pending_of(live),
    )


def pending_files(ledger: Ledger) -> tuple[PendingFile, ...]:
    """The files with hunks that are undecided or unsaved, by their names. Blocks."""
    reviews = (ledger.get(path) for path in ledger.paths())
    return tuple(_pending_file(review) for review in reviews if any(hunk.is_shown for hunk in review.hunks))


def _pending_file(review: FileReview) -> PendingFile:
    hunks = [hunk for hunk in review.hunks if hunk.is_shown]
    runs = (layer.run for hunk in hunks for layer in hunk.layers if layer.run)
    return PendingFile(
        file_path=review.path,
        rev=review.rev,
        base_file_hash=text_hash(review.base),
        pending=sum(hunk.state == "pending" for hunk in hunks),
        accepted=sum(hunk.state == "accepted" for hunk in hunks),
        conflicts=sum(hunk.conflict for hunk in hunks),
        hunk_ids=tuple(hunk.id for hunk in hunks),
        run_ids=tuple(dict.fromkeys(runs)),
    )
