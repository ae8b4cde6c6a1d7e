"""A job run again on files that have changed under what it proposed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import anyio.to_thread
import msgspec

from newel.review.model.decisions import reject
from newel.review.model.file_review import FileReview, Lines
from newel.review.model.history import HistoryEntry, patched
from newel.review.model.patch import file_patch
from newel.review.serialize import is_of
from newel.review_jobs.errors import WrongState
from newel.review_jobs.file_reviews import ReviewFiles
from newel.review_jobs.journal import JobJournal, JobParams

MAX_CHANGED = 64 << 10
"""Characters of what the model is told of what changed."""


async def again(files: ReviewFiles, journal: JobJournal) -> JobParams:
    """Reject what the change has touched, but for hunks with the user's own lines, and say what the new job is about. What
    was not touched stays under review. Raises ``WrongState`` unless the job awaits review.
    """
    if journal.state.status != "awaiting_review":
        raise WrongState(
            f"Job {journal.job} is {journal.state.status}; only one that awaits review can be run again."
        )
    changed: list[str] = []
    for path in journal.state.hashes:
        review = await files.read(path)
        changed.append(await anyio.to_thread.run_sync(_changed, files, journal, review))
        await anyio.to_thread.run_sync(_withdraw, files, journal.job, review)
    return msgspec.structs.replace(
        journal.params,
        key=f"{journal.params.key}/again/{journal.state.seq}",
        rerun_of=journal.job,
        changed="".join(changed)[:MAX_CHANGED],
    )


def _changed(files: ReviewFiles, journal: JobJournal, review: FileReview) -> str:
    """What happened to a file since the job last proposed something of it, as a unified diff."""
    then = _base_after(files.ledger.entries(path=review.path), journal.state.entries)
    return file_patch(review.path, then, review.base)


def _base_after(entries: Sequence[HistoryEntry], ids: Collection[str]) -> Lines:
    """The base that a file had when the last of some changes was made."""
    now = FileReview(path="")
    base: Lines = ()
    for each in entries:
        now = patched(now, each.forward)
        if each.id in ids:
            base = now.base
    return base


def _withdraw(files: ReviewFiles, job: str, review: FileReview) -> None:
    touched = [
        hunk
        for hunk in review.hunks
        if hunk.conflict and hunk.is_shown and is_of(hunk, job) and not hunk.has_user_layer
    ]

    def make(now: FileReview) -> FileReview:
        for hunk in touched:
            now = reject(now, hunk.id)
        return now

    if touched:
        names = tuple(hunk.id for hunk in touched)
        files.ledger.change(review.path, "reject", make, rev=review.rev, hunks=names)
