"""A job's review comes to its end: accepted hunks go to the disk, the others are rejected."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import anyio
import anyio.to_thread
import msgspec

from newel.jobs.engine import JobOutcome
from newel.review.model.file_lines import text_hash
from newel.review.model.file_review import Conflict, FileReview, Hunk, NeedsChoice, ReviewError, UnknownHunk
from newel.review.model.history import MOVES_BASE
from newel.review.serialize import is_of
from newel.review_jobs.errors import WrongState
from newel.review_jobs.file_reviews import ReviewFiles
from newel.review_jobs.journal import JobJournal, event
from newel.review_jobs.schemas import Applied, AppliedFile

DONE = JobOutcome(state="done")


class _HunkGroup(NamedTuple):
    """What an application does in one file; ``before`` are accepted hunks that were saved before."""

    review: FileReview
    accepted: list[str]
    rejected: list[str]
    before: list[str]


async def apply(files: ReviewFiles, journal: JobJournal, accepted: Sequence[str]) -> Applied:
    """Save the accepted hunks of a job and reject its other ones; what the user alone wrote stays as it is unless it is named.

    All is checked first: if a file is not what the review was told it is, ``Conflict`` is raised, the review says which hunks
    are touched, and nothing has changed. The same request again answers the same. Raises ``WrongState``, ``UnknownHunk``,
    ``NeedsChoice`` and what a save raises.
    """
    state = journal.state
    if state.status == "completed" and state.applied is not None:
        if set(state.applied_ids) != set(accepted):
            raise WrongState(f"Job {journal.job} was applied already, with other hunks.")
        return Applied(status="completed", applied_files=tuple(state.applied))
    if state.status != "awaiting_review":
        raise WrongState(f"Job {journal.job} has nothing to apply: it is {state.status}.")
    parts = await _checked(files, journal, accepted)
    if state.applying is None:
        await journal.annotate(event("apply.started", accepted_hunk_ids=list(accepted)))
    return await _carry_out(files, journal, parts)


async def resume(files: ReviewFiles, journal: JobJournal) -> None:
    """Finish an application that a crash has cut off; if that cannot be, the job awaits review again and says why."""
    accepted = journal.state.applying
    if accepted is None or journal.state.status != "awaiting_review":
        return
    try:
        await _carry_out(files, journal, await _checked(files, journal, accepted))
    except ReviewError as error:
        if journal.state.applying is not None:
            await _tell_conflict(files, journal, str(error), list(journal.state.hashes))


async def finish_if_settled(files: ReviewFiles, journal: JobJournal) -> None:
    """End a job's review once a save has left none of its hunks undecided or unsaved."""
    if journal.state.status != "awaiting_review":
        return
    reviews = [await files.known(path) for path in journal.state.hashes]
    hunks = [hunk for review in reviews for hunk in review.hunks if is_of(hunk, journal.job)]
    if any(hunk.state != "rejected" for hunk in hunks):
        return
    done = [
        AppliedFile(
            file_path=review.path,
            applied_hunks=sum(one.run == journal.job for one in review.applied),
            rejected_hunks=sum(is_of(hunk, journal.job) for hunk in review.hunks),
        )
        for review in reviews
    ]
    kept = [one.id for review in reviews for one in review.applied if one.run == journal.job]
    await journal.annotate(
        event("apply.started", accepted_hunk_ids=kept),
        event("apply.completed", applied_files=[msgspec.to_builtins(each) for each in done]),
        outcome=DONE,
    )


async def _checked(files: ReviewFiles, journal: JobJournal, accepted: Sequence[str]) -> list[_HunkGroup]:
    state = journal.state
    reviews = [await files.saver.refresh(path) for path in state.hashes]
    wanted = set(accepted)
    parts = [_part(review, journal.job, wanted) for review in reviews]
    found = {name for part in parts for name in (*part.accepted, *part.before)}
    conflicts = {hunk.id for review in reviews for hunk in review.hunks if hunk.conflict}
    changed = [
        part.review.path
        for part in parts
        if text_hash(part.review.base) != state.hashes[part.review.path] and not await _wrote(files, part)
    ]
    if changed:
        words = f"{', '.join(changed)} changed on the disk since the review was shown. Nothing was applied."
        await _tell_conflict(files, journal, words, changed)
        raise Conflict(f"{words} Look at the review anew, or run the job again on the new version.")
    if overridden := sorted(wanted & conflicts):
        raise Conflict(
            f"The file changed under hunk {', '.join(overridden)}: run the job again, or accept it by itself and save."
        )
    for review, name in ((review, name) for review in reviews for name in sorted(wanted - found)):
        if review.successor(name):
            review.hunk(name)  # says that it has changed
    if unknown := wanted - found:
        raise UnknownHunk(f"Job {journal.job} has no hunk {', '.join(sorted(unknown))} now. Read it anew.")
    for part in parts:
        for name in part.rejected:
            if part.review.hunk(name).has_user_layer and part.review.hunk(name).state != "rejected":
                raise NeedsChoice(
                    f"Hunk {name} of {part.review.path} has edits of your own: reject it by itself first, and say whether "
                    "only those go (peel) or all of it (base)."
                )
    return parts


async def _wrote(files: ReviewFiles, part: _HunkGroup) -> bool:
    """Whether the file is as a save of the hunks that are asked for has left it: this is no change from outside."""
    entries = await anyio.to_thread.run_sync(partial(files.ledger.entries, path=part.review.path))
    moved = [each for each in entries if each.kind in MOVES_BASE]
    return bool(moved) and moved[-1].kind == "save" and not set(moved[-1].hunks).isdisjoint(part.before)


def _part(review: FileReview, job: str, wanted: set[str]) -> _HunkGroup:
    def is_own(hunk: Hunk) -> bool:
        return is_of(hunk, job)

    accepted = [hunk.id for hunk in review.hunks if hunk.id in wanted]
    rejected = [hunk.id for hunk in review.hunks if is_own(hunk) and hunk.id not in wanted]
    return _HunkGroup(review, accepted, rejected, [one.id for one in review.applied if one.id in wanted])


async def _carry_out(files: ReviewFiles, journal: JobJournal, parts: Sequence[_HunkGroup]) -> Applied:
    done = [
        AppliedFile(
            file_path=part.review.path,
            applied_hunks=len(part.accepted) + len(part.before),
            rejected_hunks=len(part.rejected),
        )
        for part in parts
    ]
    with anyio.CancelScope(shield=True):  # what was begun is told, also if nobody waits for it any more
        try:
            for part in parts:
                await files.decide_many(part.review.path, part.accepted, part.rejected)
            await files.saver.save({part.review.path: part.accepted for part in parts if part.accepted})
        except ReviewError as error:
            await _tell_conflict(files, journal, str(error), list(journal.state.hashes))
            raise
        data = [msgspec.to_builtins(each) for each in done]
        await journal.annotate(event("apply.completed", applied_files=data), outcome=DONE)
    return Applied(status="completed", applied_files=tuple(done))


async def _tell_conflict(files: ReviewFiles, journal: JobJournal, words: str, paths: Sequence[str]) -> None:
    reviews = [await files.known(path) for path in paths]
    await journal.annotate(
        event(
            "conflict.detected",
            message=words,
            files=list(paths),
            hunk_ids=[hunk.id for review in reviews for hunk in review.hunks if hunk.conflict],
            base_file_hashes={review.path: text_hash(review.base) for review in reviews},
        )
    )
