"""Taking back what stands in the file already. What comes of it is in the buffer first, and on the disk with the next save."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from newel.review.model.edits import NewId, tidied
from newel.review.model.file_lines import spans_of
from newel.review.model.file_review import Conflict, FileReview, Hunk, Layer, Lines, UnknownHunk
from newel.review.model.line_ranges import LineRangeSet, touch


def reverted(review: FileReview, ids: Collection[str], new_id: NewId) -> FileReview:
    """With what stood before in place of the saved hunks ``ids``; everything else stays as it is.

    Raises ``UnknownHunk``, and ``Conflict``, which changes nothing: something newer stands in the place of one of them.
    """
    known = {one.id: one for one in review.applied}
    if unknown := [name for name in ids if name not in known]:
        raise UnknownHunk(f"{review.path} has no saved hunk {', '.join(unknown)}.")
    for problem in in_the_way(review, ids).values():
        raise Conflict(problem)
    back = [known[name] for name in dict.fromkeys(ids)]
    places = LineRangeSet(len(review.base), ((one.a, one.b) for one in back))
    hunks = [hunk for hunk in review.hunks if hunk.is_shown or not places.touch(hunk.a, hunk.b)]
    for one in back:
        layers = (Layer(origin="user", lines=one.before),)
        hunks += tidied(review.base, Hunk(id=new_id(), a=one.a, b=one.b, layers=layers, state="accepted"))
    hunks.sort(key=lambda hunk: (hunk.a, hunk.b))
    return msgspec.structs.replace(review, hunks=tuple(hunks), rev=review.rev + 1)


def in_the_way(review: FileReview, ids: Iterable[str]) -> dict[str, str]:
    """Those of the saved hunks ``ids`` that cannot be taken back by themselves, and why."""
    known = {one.id: one for one in review.applied}
    shown = [hunk for hunk in review.hunks if hunk.is_shown]
    places = LineRangeSet(len(review.base), ((hunk.a, hunk.b) for hunk in shown))
    problems: dict[str, str] = {}
    for one in (known[name] for name in ids):
        if not one.intact:
            problem = "its lines were changed since"
        elif places.touch(one.a, one.b):
            over = [hunk.id for hunk in shown if touch(hunk.a, hunk.b, one.a, one.b)]
            problem = f"hunk {', '.join(over)} changes these lines"
        else:
            continue
        where = f"{review.path}:{max(one.a, 1)}"  # what is a file begins with its head, so that 1 is its first line
        problems[one.id] = f"{where}: hunk {one.id} cannot be undone by itself: {problem}."
    return problems


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
        for span in spans_of(review.base, lines)
    )
    return msgspec.structs.replace(review, hunks=hunks, rev=review.rev + 1)
