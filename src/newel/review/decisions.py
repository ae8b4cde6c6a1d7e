"""What a person decides of a hunk. None of it moves another hunk, so the order of decisions does not matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from newel.review.edits import tidied
from newel.review.ledger import FileReview, Hunk, NeedsChoice, ReviewError

Mine = Literal["peel", "base"]
"""What becomes of the user's own lines in a hunk that is rejected: only they go, or all of it."""


class NothingToPeel(ReviewError):
    """The hunk has no lines of the user's own."""


def accept(review: FileReview, hunk_id: str) -> FileReview:
    """Keep a hunk, with the next save. Raises ``UnknownHunk``."""
    return _changed(review, hunk_id, lambda hunk: (msgspec.structs.replace(hunk, state="accepted"),))


def reject(review: FileReview, hunk_id: str, mine: Mine | None = None) -> FileReview:
    """Take a hunk back to the base. It can be opened again until something is written in its place.

    Raises ``UnknownHunk``, and ``NeedsChoice`` if the user has written in it and ``mine`` does not say what to do.
    """
    hunk = review.hunk(hunk_id)
    if hunk.has_user_layer and mine is None:
        raise NeedsChoice(
            f"Hunk {hunk_id} of {review.path} has edits of your own: drop only those (peel), or all of it (base)."
        )
    if mine == "peel":
        return peel(review, hunk_id)
    return _changed(review, hunk_id, lambda hunk: (msgspec.structs.replace(hunk, state="rejected"),))


def reopen(review: FileReview, hunk_id: str) -> FileReview:
    """Take a decision back. Raises ``UnknownHunk``."""
    return _changed(review, hunk_id, lambda hunk: (msgspec.structs.replace(hunk, state="pending"),))


def peel(review: FileReview, hunk_id: str) -> FileReview:
    """Drop the user's own lines on top of a hunk; what the agent proposed is pending again. Raises ``UnknownHunk`` and
    ``NothingToPeel``.
    """
    if review.hunk(hunk_id).top.origin != "user":
        raise NothingToPeel(f"Hunk {hunk_id} of {review.path} has no lines of your own on top.")

    def peeled(hunk: Hunk) -> tuple[Hunk, ...]:
        layers = hunk.layers
        while layers and layers[-1].origin == "user":
            layers = layers[:-1]
        if not layers:
            return ()
        return tidied(review.base, msgspec.structs.replace(hunk, layers=layers, state="pending"))

    return _changed(review, hunk_id, peeled)


def _changed(review: FileReview, hunk_id: str, change: Callable[[Hunk], tuple[Hunk, ...]]) -> FileReview:
    review.hunk(hunk_id)
    hunks = [new for hunk in review.hunks for new in (change(hunk) if hunk.id == hunk_id else (hunk,))]
    return msgspec.structs.replace(review, hunks=tuple(hunks), rev=review.rev + 1)
