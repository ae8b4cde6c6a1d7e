"""Undo saved hunks. The result is in the buffer; the next save writes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from newel.review.model.edits import NewId, tidied
from newel.review.model.file_lines import is_blob, kind_of, spans_of
from newel.review.model.file_review import AppliedHunk, Conflict, FileReview, Hunk, Layer, Lines, UnknownHunk
from newel.review.model.line_ranges import LineRangeSet, touch


def reverted(review: FileReview, ids: Collection[str], new_id: NewId) -> FileReview:
    """The review with the saved hunks ``ids`` undone; everything else remains.

    Raises ``UnknownHunk``, and ``Conflict`` without any change if lines of one of them have changed since.
    """
    by_id = {applied_hunk.id: applied_hunk for applied_hunk in review.applied}
    if unknown := [name for name in ids if name not in by_id]:
        raise UnknownHunk(f"{review.path} has no saved hunk {', '.join(unknown)}.")
    for problem in in_the_way(review, ids).values():
        raise Conflict(problem)
    back = [by_id[name] for name in dict.fromkeys(ids)]
    places = LineRangeSet(len(review.base), ((applied_hunk.a, applied_hunk.b) for applied_hunk in back))
    hunks = [hunk for hunk in review.hunks if hunk.is_shown or not places.touch(hunk.a, hunk.b)]
    for applied_hunk in back:
        layers = (Layer(origin="user", lines=applied_hunk.before),)
        hunks += tidied(
            review.base,
            Hunk(id=new_id(), a=applied_hunk.a, b=applied_hunk.b, layers=layers, state="accepted"),
        )
    hunks.sort(key=lambda hunk: (hunk.a, hunk.b))
    return msgspec.structs.replace(review, hunks=tuple(hunks), rev=review.rev + 1)


def in_the_way(review: FileReview, ids: Iterable[str]) -> dict[str, str]:
    """The saved hunks of ``ids`` that cannot be undone on their own, with the reason."""
    by_id = {applied_hunk.id: applied_hunk for applied_hunk in review.applied}
    undone = [by_id[name] for name in ids]
    visible = [hunk for hunk in review.hunks if hunk.is_shown]
    has_others = bool(visible) or _has_other_lines(review, undone)
    places = LineRangeSet(len(review.base), ((hunk.a, hunk.b) for hunk in visible))
    problems: dict[str, str] = {}
    for applied_hunk in undone:
        if not applied_hunk.intact and (is_blob(applied_hunk.before) or is_blob(review.base)):
            problem = "the file is stored as a whole, and changed since"
        elif not applied_hunk.intact:
            problem = "its lines were changed since"
        elif has_others and _is_whole(applied_hunk.before):
            problem = "it would replace the whole file, and others have changed the file since"
        elif places.touch(applied_hunk.a, applied_hunk.b):
            over = [hunk.id for hunk in visible if touch(hunk.a, hunk.b, applied_hunk.a, applied_hunk.b)]
            problem = f"hunk {', '.join(over)} changes these lines"
        else:
            continue
        where = f"{review.path}:{max(applied_hunk.a, 1)}"  # a file begins with its head, so that 1 is its first line
        problems[applied_hunk.id] = f"{where}: hunk {applied_hunk.id} cannot be undone by itself: {problem}."
    return problems


def _is_whole(before: Lines) -> bool:
    """Whether lines are all of a file: bytes that are not text, a link, a folder or a pipe."""
    return is_blob(before) or kind_of(before) not in {"file", "absent"}


def _has_other_lines(review: FileReview, undone: Sequence[AppliedHunk]) -> bool:
    """Whether there is a line besides the head that is not of these hunks; only asked if one of them replaced a whole file."""
    if not any(_is_whole(applied_hunk.before) for applied_hunk in undone):
        return False
    places = LineRangeSet(len(review.base), ((applied_hunk.a, applied_hunk.b) for applied_hunk in undone))
    return not all(places.touch(line, line + 1) for line in range(1, len(review.base)))


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
