"""The user's decisions on hunks. A decision never moves another hunk, so their order does not matter."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

import msgspec

from newel.review.model.edits import tidied
from newel.review.model.file_review import ChoiceNeeded, FileReview, Hunk, HunkState, ReviewError
from newel.review.model.split import split_hunk

Verdict = Literal["accept", "reject", "reopen", "peel", "split"]

Mine = Literal["peel", "base"]
"""What a rejection does to the user's own lines in a hunk: drop only these lines (``peel``), or the whole hunk
(``base``).
"""


class NothingToPeel(ReviewError):
    """The hunk has no lines of the user's own."""


def accept(review: FileReview, hunk_id: str) -> FileReview:
    """Keep a hunk; the next save writes it. Raises ``UnknownHunk``."""
    return decided(review, [hunk_id], "accept")


def reject(review: FileReview, hunk_id: str, mine: Mine | None = None) -> FileReview:
    """Restore the base lines of a hunk. It can be reopened until something else is written there.

    Raises ``UnknownHunk``, and ``ChoiceNeeded`` if the user has edited the hunk and ``mine`` is None.
    """
    return decided(review, [hunk_id], "reject", mine)


def reopen(review: FileReview, hunk_id: str) -> FileReview:
    """Revert a decision: the hunk is undecided again. Raises ``UnknownHunk``."""
    return decided(review, [hunk_id], "reopen")


def peel(review: FileReview, hunk_id: str) -> FileReview:
    """Drop the user's own lines on top of a hunk; the agent's proposal is pending again. Raises ``UnknownHunk`` and
    ``NothingToPeel``.
    """
    return decided(review, [hunk_id], "peel")


def split(review: FileReview, hunk_id: str) -> FileReview:
    """Replace a hunk by its parts, in its state. Raises ``UnknownHunk`` and ``CannotSplit``."""
    return decided(review, [hunk_id], "split")


def decided(
    review: FileReview, hunk_ids: Collection[str], verdict: Verdict, mine: Mine | None = None
) -> FileReview:
    """Decide several hunks in the same way, as one change; returns the same review if all are already decided so.
    ``mine`` applies to rejected hunks with lines of the user's own. Raises the errors of the functions above;
    then no hunk is decided.
    """
    remaining = set(hunk_ids)
    if unknown := remaining - {hunk.id for hunk in review.hunks}:
        review.hunk(min(unknown))  # says so
    hunks: list[Hunk] = []
    for hunk in review.hunks:
        hunks += _one(review, hunk, verdict, mine) if hunk.id in remaining else (hunk,)
    if tuple(hunks) == review.hunks:
        return review
    return msgspec.structs.replace(review, hunks=tuple(hunks), rev=review.rev + 1)


def undecided(
    review: FileReview, verdict: Literal["accept", "reject"], mine: Mine | None = None
) -> list[str]:
    """The hunks that a decision on a whole file includes: undecided ones; for ``accept`` without conflicts, for
    ``reject`` without lines of the user's own, unless ``mine`` decides on these.
    """
    return [
        hunk.id
        for hunk in review.hunks
        if hunk.state == "pending"
        and not (hunk.conflict if verdict == "accept" else hunk.has_user_layer and mine is None)
    ]


def _one(review: FileReview, hunk: Hunk, verdict: Verdict, mine: Mine | None) -> tuple[Hunk, ...]:
    """The hunk after a decision."""
    if verdict == "reject" and hunk.has_user_layer and hunk.state != "rejected" and mine is None:
        raise ChoiceNeeded(
            f"Hunk {hunk.id} of {review.path} has edits of your own: drop only those (peel), or all of it (base)."
        )
    match verdict:
        case "peel":
            return _peeled(review, hunk)
        case "reject" if hunk.has_user_layer and mine == "peel":
            return _peeled(review, hunk)
        case "split":
            return split_hunk(review.base, hunk)
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
