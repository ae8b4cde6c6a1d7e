"""A job that its user does not want any more."""

from __future__ import annotations

from typing import Final

from newel.review_jobs.dependencies import ReviewDependencies
from newel.review_jobs.errors import WrongState
from newel.review_jobs.journal import JobJournal, event
from newel.review_jobs.overlay_workspace import OverlayWorkspace
from newel.review_jobs.propose import Proposer

CANCELLED: Final = "Cancelled by the user."
"""Why a job that was cancelled has failed."""


async def cancel(bench: ReviewDependencies, journal: JobJournal) -> None:
    """End a job that waits for its turn, runs, or asks. What it proposed until then stays under review, file by file; of a
    proposal that it was just making nothing is left. Asked again it changes nothing. Raises ``WrongState`` where there is
    nothing to be cancelled.
    """
    state = journal.state
    if state.error == CANCELLED:
        return
    if state.status == "awaiting_review" or state.is_finished:
        raise WrongState(f"Job {journal.job} does not run: it is {state.status}.")
    await bench.engine.cancel(journal.job, CANCELLED)
    await journal.annotate(event("job.failed", error=CANCELLED))
    await Proposer(bench, journal, OverlayWorkspace(bench.workspace, bench.ledger)).take_back()
