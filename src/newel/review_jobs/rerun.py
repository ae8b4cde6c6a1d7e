"""A job is run again on files that changed under its proposals."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import anyio.to_thread
import msgspec

from newel.review.model.decisions import reject
from newel.review.model.file_review import FileReview, Lines
from newel.review.model.history import HistoryEntry, patched
from newel.review.model.patch import file_patch
from newel.review.serialize import is_of
from newel.review_jobs.errors import WrongState
from newel.review_jobs.files import ReviewFiles
from newel.review_jobs.journal import JobJournal, JobParams

MAX_PATCH: Final = 64 << 10
"""Characters of the patch that the model is shown."""


async def prepare(files: ReviewFiles, journal: JobJournal) -> JobParams:
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

    def make(current: FileReview) -> FileReview:
        for hunk_id in hunks:
            current = reject(current, hunk_id)
        return current

    if hunks:
        files.ledger.change(review.path, "reject", make, rev=review.rev, hunks=hunks)
