"""The end of a job's review: accepted hunks are saved, the others rejected."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import anyio
import anyio.to_thread
import msgspec

from newel.jobs.engine import JobOutcome
from newel.review.model.decisions import decided
from newel.review.model.file_lines import text_hash
from newel.review.model.file_review import ChoiceNeeded, Conflict, FileReview, ReviewError, UnknownHunk
from newel.review.model.history import MOVES_BASE
from newel.review.serialize import is_of
from newel.review_jobs.errors import WrongState
from newel.review_jobs.files import ReviewFiles
from newel.review_jobs.journal import JobJournal, event
from newel.review_jobs.responses import AppliedFile, ApplyResponse

DONE = JobOutcome(state="done")


class _FilePlan(NamedTuple):
    """The hunks of one file to accept and to reject. ``saved`` are accepted hunks that were saved before."""

    review: FileReview
    accepted: list[str]
    rejected: list[str]
    saved: list[str]


async def apply(files: ReviewFiles, journal: JobJournal, accepted: Sequence[str]) -> ApplyResponse:
    """Save the accepted hunks of a job and reject its others. The user's own edits stay unless they are named.

    Everything is checked first: if a file is not what the review says, ``Conflict`` is raised, the review marks the
    affected hunks, and nothing has changed. Idempotent. Raises ``WrongState``, ``UnknownHunk``, ``ChoiceNeeded``, and the
    errors of a save.
    """
    state = journal.state
    if state.status == "completed" and state.applied is not None:
        if set(state.applied_ids) != set(accepted):
            raise WrongState(f"Job {journal.job} has already been applied with other hunks.")
        return ApplyResponse(status="completed", applied_files=tuple(state.applied))
    if state.status != "awaiting_review":
        raise WrongState(f"Job {journal.job} cannot be applied: it is {state.status}.")
    plans = await _plan(files, journal, accepted)
    if state.applying is None:
        await journal.annotate(event("apply.started", accepted_hunk_ids=list(accepted)))
    return await _execute(files, journal, plans)


async def resume(files: ReviewFiles, journal: JobJournal) -> None:
    """Finish an application that a crash interrupted. If that fails, the job awaits review again and records why."""
    accepted = journal.state.applying
    if accepted is None or journal.state.status != "awaiting_review":
        return
    try:
        await _execute(files, journal, await _plan(files, journal, accepted))
    except ReviewError as error:
        if journal.state.applying is not None:
            await _record_conflict(files, journal, str(error), list(journal.state.hashes))


async def complete_if_decided(files: ReviewFiles, journal: JobJournal) -> None:
    """End a job's review if all of its hunks are saved or rejected."""
    if journal.state.status != "awaiting_review":
        return
    reviews = [await files.get(path) for path in journal.state.hashes]
    hunks = [hunk for review in reviews for hunk in review.hunks if is_of(hunk, journal.job)]
    if any(hunk.state != "rejected" for hunk in hunks):
        return
    applied = [
        AppliedFile(
            file_path=review.path,
            applied_hunks=sum(hunk.run == journal.job for hunk in review.applied),
            rejected_hunks=sum(is_of(hunk, journal.job) for hunk in review.hunks),
        )
        for review in reviews
    ]
    accepted = [hunk.id for review in reviews for hunk in review.applied if hunk.run == journal.job]
    await journal.annotate(
        event("apply.started", accepted_hunk_ids=accepted),
        event("apply.completed", applied_files=msgspec.to_builtins(applied)),
        outcome=DONE,
    )


async def _plan(files: ReviewFiles, journal: JobJournal, accepted: Sequence[str]) -> list[_FilePlan]:
    state = journal.state
    reviews = [await files.saver.refresh(path) for path in state.hashes]
    requested = set(accepted)
    plans = [_plan_file(review, journal.job, requested) for review in reviews]
    changed = [
        plan.review.path
        for plan in plans
        if text_hash(plan.review.base) != state.hashes[plan.review.path]
        and not await _is_own_save(files, plan)
    ]
    if changed:
        problem = f"{', '.join(changed)} changed on disk since the review was shown. Nothing was applied."
        await _record_conflict(files, journal, problem, changed)
        raise Conflict(f"{problem} Reload the review, or run the job again on the new version.")
    if conflicts := sorted(requested.intersection(_conflicts(reviews))):
        raise Conflict(
            f"The file changed under hunk {', '.join(conflicts)}. Run the job again, or accept and save the hunk by itself."
        )
    unknown = sorted(requested.difference(*(plan.accepted + plan.saved for plan in plans)))
    for review in reviews:
        for hunk_id in unknown:
            if review.successor(hunk_id):
                review.hunk(hunk_id)  # raises the error that names the successor
    if unknown:
        raise UnknownHunk(f"Job {journal.job} has no hunk {', '.join(unknown)}. Reload the job.")
    for plan in plans:
        for hunk_id in plan.rejected:
            hunk = plan.review.hunk(hunk_id)
            if hunk.has_user_layer and hunk.state != "rejected":
                raise ChoiceNeeded(
                    f"Hunk {hunk_id} of {plan.review.path} contains your own edits. Reject it by itself first, and choose "
                    "whether to discard only your edits (peel) or all of it (base)."
                )
    return plans


def _plan_file(review: FileReview, job: str, requested: set[str]) -> _FilePlan:
    return _FilePlan(
        review,
        accepted=[hunk.id for hunk in review.hunks if hunk.id in requested],
        rejected=[hunk.id for hunk in review.hunks if is_of(hunk, job) and hunk.id not in requested],
        saved=[hunk.id for hunk in review.applied if hunk.id in requested],
    )


async def _is_own_save(files: ReviewFiles, plan: _FilePlan) -> bool:
    """Whether the file is as a save of the requested hunks left it, so that its change is no conflict."""
    entries = await anyio.to_thread.run_sync(partial(files.ledger.entries, path=plan.review.path))
    moves = [entry for entry in entries if entry.kind in MOVES_BASE]
    return bool(moves) and moves[-1].kind == "save" and not set(moves[-1].hunks).isdisjoint(plan.saved)


async def _execute(files: ReviewFiles, journal: JobJournal, plans: Sequence[_FilePlan]) -> ApplyResponse:
    applied = [
        AppliedFile(
            file_path=plan.review.path,
            applied_hunks=len(plan.accepted) + len(plan.saved),
            rejected_hunks=len(plan.rejected),
        )
        for plan in plans
    ]
    with anyio.CancelScope(shield=True):  # the journal must record the end, even if the client has gone
        try:
            for plan in plans:
                await _decide(files, plan)
            await files.saver.save({plan.review.path: plan.accepted for plan in plans if plan.accepted})
        except ReviewError as error:
            await _record_conflict(files, journal, str(error), list(journal.state.hashes))
            raise
        completed = event("apply.completed", applied_files=msgspec.to_builtins(applied))
        await journal.annotate(completed, outcome=DONE)
    return ApplyResponse(status="completed", applied_files=tuple(applied))


async def _decide(files: ReviewFiles, plan: _FilePlan) -> None:
    def make(review: FileReview) -> FileReview:
        return decided(decided(review, plan.accepted, "accept"), plan.rejected, "reject")

    hunks = (*plan.accepted, *plan.rejected)
    await anyio.to_thread.run_sync(
        partial(files.ledger.change, plan.review.path, "accept", make, hunks=hunks)
    )


async def _record_conflict(
    files: ReviewFiles, journal: JobJournal, message: str, paths: Sequence[str]
) -> None:
    reviews = [await files.get(path) for path in paths]
    await journal.annotate(
        event(
            "conflict.detected",
            message=message,
            files=list(paths),
            hunk_ids=_conflicts(reviews),
            base_file_hashes={review.path: text_hash(review.base) for review in reviews},
        )
    )


def _conflicts(reviews: Sequence[FileReview]) -> list[str]:
    return [hunk.id for review in reviews for hunk in review.hunks if hunk.conflict]
