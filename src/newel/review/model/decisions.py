"""What a person decides of a hunk. None of it moves another hunk, so the order of decisions does not matter."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

import msgspec

from newel.review.model.edits import tidied
from newel.review.model.file_review import FileReview, Hunk, HunkState, NeedsChoice, ReviewError

Verdict = Literal["accept", "reject", "reopen", "peel"]

Mine = Literal["peel", "base"]
"""What becomes of the user's own lines in a hunk that is rejected: only they go, or all of it."""


class NothingToPeel(ReviewError):
    """The hunk has no lines of the user's own."""


def accept(review: FileReview, hunk_id: str) -> FileReview:
    """Keep a hunk, with the next save. Raises ``UnknownHunk``."""
    return decided(review, [hunk_id], "accept")


def reject(review: FileReview, hunk_id: str, mine: Mine | None = None) -> FileReview:
    """Take a hunk back to the base. It can be opened again until something is written in its place.

    Raises ``UnknownHunk``, and ``NeedsChoice`` if the user has written in it and ``mine`` does not say what to do.
    """
    return decided(review, [hunk_id], "reject", mine)


def reopen(review: FileReview, hunk_id: str) -> FileReview:
    """Take a decision back. Raises ``UnknownHunk``."""
    return decided(review, [hunk_id], "reopen")


def peel(review: FileReview, hunk_id: str) -> FileReview:
    """Drop the user's own lines on top of a hunk; what the agent proposed is pending again. Raises ``UnknownHunk`` and
    ``NothingToPeel``.
    """
    return decided(review, [hunk_id], "peel")


def decided(
    review: FileReview, hunk_ids: Collection[str], verdict: Verdict, mine: Mine | None = None
) -> FileReview:
    """Decide the same of several hunks, in one change; the same review where all are so already. ``mine`` is about those
    that are rejected and hold lines of the user's own. Raises what the functions above raise, and then nothing is decided.
    """
    wanted = set(hunk_ids)
    if unknown := wanted - {hunk.id for hunk in review.hunks}:
        review.hunk(min(unknown))  # says so
    hunks: list[Hunk] = []
    for hunk in review.hunks:
        hunks += _one(review, hunk, verdict, mine) if hunk.id in wanted else (hunk,)
    if tuple(hunks) == review.hunks:
        return review
    return msgspec.structs.replace(review, hunks=tuple(hunks), rev=review.rev + 1)


def undecided(
    review: FileReview, verdict: Literal["accept", "reject"], mine: Mine | None = None
) -> list[str]:
    """The hunks that a verdict on all of a file is about: none that is decided; for ``accept`` no conflict, and for
    ``reject`` none with lines of the user's own, unless ``mine`` says what becomes of them.
    """
    return [
        hunk.id
        for hunk in review.hunks
        if hunk.state == "pending"
        and not (hunk.conflict if verdict == "accept" else hunk.has_user_layer and mine is None)
    ]


def _one(review: FileReview, hunk: Hunk, verdict: Verdict, mine: Mine | None) -> tuple[Hunk, ...]:
    """What becomes of a hunk."""
    if verdict == "reject" and hunk.has_user_layer and hunk.state != "rejected" and mine is None:
        raise NeedsChoice(
            f"Hunk {hunk.id} of {review.path} has edits of your own: drop only those (peel), or all of it (base)."
        )
    match verdict:
        case "peel":
            return _peeled(review, hunk)
        case "reject" if hunk.has_user_layer and mine == "peel":
            return _peeled(review, hunk)
        case _:
            return (msgspec.structs.replace(hunk, state=_STATES[verdict]),)


def _peeled(review: FileReview, hunk: Hunk) -> tuple[Hunk, ...]:
    if hunk.top.origin != "user":
        raise NothingToPeel(f"Hunk {hunk.id} of {review.path} has no lines of your own on top.")
    layers = hunk.layers
    while layers and layers[-1].origin == "user":
        layers = layers[:-1]
    return (
        tidied(review.base, msgspec.structs.replace(hunk, layers=layers, state="pending")) if layers else ()
    )


_STATES: Final[dict[str, HunkState]] = {"accept": "accepted", "reject": "rejected", "reopen": "pending"}
