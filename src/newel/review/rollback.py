"""Taking back what stands in the file already. What comes of it is in the buffer first, and on the disk with the next save."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from newel.review.edits import NewId, tidied
from newel.review.ledger import Applied, Conflict, FileReview, Hunk, Layer, Lines, UnknownHunk, touch
from newel.tools.patience import diff


def reverted(review: FileReview, ids: Collection[str], new_id: NewId) -> FileReview:
    """With what stood before in place of the saved hunks ``ids``; everything else stays as it is.

    Raises ``UnknownHunk``, and ``Conflict``, which changes nothing: something newer stands in the place of one of them.
    """
    known = {one.id: one for one in review.applied}
    for name in ids:
        if name not in known:
            raise UnknownHunk(f"{review.path} has no saved hunk {name}.")
        if problem := _in_the_way(review, known[name]):
            raise Conflict(f"{review.path}: hunk {name} cannot be taken back by itself: {problem}.")
    back = [known[name] for name in dict.fromkeys(ids)]
    hunks = [
        hunk
        for hunk in review.hunks
        if hunk.is_shown or not any(touch(hunk.a, hunk.b, one.a, one.b) for one in back)
    ]
    for one in back:
        layers = (Layer(origin="user", lines=one.before),)
        hunks += tidied(review.base, Hunk(id=new_id(), a=one.a, b=one.b, layers=layers, state="accepted"))
    hunks.sort(key=lambda hunk: (hunk.a, hunk.b))
    return msgspec.structs.replace(review, hunks=tuple(hunks), rev=review.rev + 1)


def _in_the_way(review: FileReview, one: Applied) -> str:
    if not one.intact:
        return "its lines were changed since"
    over = [hunk.id for hunk in review.hunks if hunk.is_shown and touch(hunk.a, hunk.b, one.a, one.b)]
    return f"hunk {', '.join(over)} changes these lines" if over else ""


def restored(review: FileReview, lines: Lines, new_id: NewId) -> FileReview:
    """With ``lines`` as the buffer, whatever was proposed, decided or written since; the journal still knows it."""
    hunks = tuple(
        Hunk(
            id=new_id(),
            a=span.a0,
            b=span.a1,
            layers=(Layer(origin="user", lines=lines[span.b0 : span.b1]),),
            state="accepted",
        )
        for span in diff(review.base, lines)
    )
    return msgspec.structs.replace(review, hunks=hunks, rev=review.rev + 1)
