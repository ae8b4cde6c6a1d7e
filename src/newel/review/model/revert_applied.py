"""Undo saved hunks. The result is in the buffer; the next save writes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from newel.review.model.edits import NewId, tidied
from newel.review.model.file_lines import spans_of
from newel.review.model.file_review import Conflict, FileReview, Hunk, Layer, Lines, UnknownHunk
from newel.review.model.line_ranges import LineRangeSet, touch


def reverted(review: FileReview, ids: Collection[str], new_id: NewId) -> FileReview:
    """The review with the saved hunks ``ids`` undone; everything else remains.

    Raises ``UnknownHunk``, and ``Conflict`` without any change if lines of one of them have changed since.
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
    """The saved hunks of ``ids`` that cannot be undone on their own, with the reason."""
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
        where = f"{review.path}:{max(one.a, 1)}"  # a file begins with its head, so that 1 is its first line
        problems[one.id] = f"{where}: hunk {one.id} cannot be undone by itself: {problem}."
    return problems


def restored(review: FileReview, lines: Lines, new_id: NewId) -> FileReview:
    """The review with ``lines`` as its buffer, whatever was proposed, decided or written since; the journal keeps
    that.
    """
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
