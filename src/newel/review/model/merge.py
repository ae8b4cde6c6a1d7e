"""Propose the changes of a copy of a file for the file itself.

The copy began as ``before``, the file's buffer at that time, and the run made it ``after``. Meanwhile the user
may have decided, edited or saved something. The run's changes elsewhere are proposed beside these; where both
changed the same lines, there is a conflict.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import msgspec

from newel.diff.patience import diff
from newel.review.model.batch_edit import Piece
from newel.review.model.edits import NewId, edit, fused, stacked, tidied
from newel.review.model.file_lines import head_of, is_blob, is_whole, kind_of
from newel.review.model.file_review import FileReview, Hunk, Layer, Lines, UserEditConflict, buffer, placed
from newel.review.model.proposal import DEFAULT_SIZE, HunkSize, marked, written
from newel.review.model.rebase import rebased


class MergeResult(NamedTuple):
    """``left_out`` describes the changes that are not proposed."""

    review: FileReview
    left_out: tuple[str, ...] = ()


def staged(
    review: FileReview,
    *,
    before: Lines,
    after: Lines,
    run: str,
    new_id: NewId,
    size: HunkSize = DEFAULT_SIZE,
) -> MergeResult:
    """The review with a run's changes of a copy. The user's lines are never overwritten: changes of these are left
    out.
    """
    now = buffer(review)
    if now == after:
        return MergeResult(review)
    hunks = _moved(before, after, now, new_id)
    changes = [(hunk.a, hunk.b, Layer(origin="agent", lines=hunk.top.lines, run=run)) for hunk in hunks]
    if not is_whole(now, after) and not any(hunk.conflict for hunk in hunks):
        with contextlib.suppress(UserEditConflict):
            return MergeResult(marked(written(review, changes, new_id=new_id, size=size), run, size))
    left_out: list[str] = []
    # From the last to the first, so that the positions of the others stay valid.
    for hunk, change in zip(reversed(hunks), reversed(changes), strict=True):
        try:
            review = _put(review, change, is_conflict=hunk.conflict, new_id=new_id, size=size)
        except UserEditConflict as error:
            left_out.append(str(error))
    return MergeResult(marked(review, run, size), tuple(left_out[::-1]))


def _moved(before: Lines, after: Lines, now: Lines, new_id: NewId) -> list[Hunk]:
    """The changes from ``before`` to ``after``, as hunks over ``now``."""
    if is_whole(before, after) or is_whole(now, after):
        spans = [(0, len(before), after)]  # bytes have no lines, and a file is deleted as a whole
    else:
        spans = [(span.a0, span.a1, after[span.b0 : span.b1]) for span in diff(before, after)]
    hunks = tuple(
        Hunk(id=new_id(), a=a, b=b, layers=(Layer(origin="agent", lines=lines),)) for a, b, lines in spans
    )
    return list(rebased(FileReview(path="", base=before, hunks=hunks), now).hunks)


def _put(
    review: FileReview, change: Piece, *, is_conflict: bool, new_id: NewId, size: HunkSize
) -> FileReview:
    start, end, layer = change
    now = buffer(review)
    is_all = start == 0 and end == len(now) and head_of(layer.lines) is not None
    if is_blob(now) or is_blob(layer.lines) or (is_all and kind_of(now) != kind_of(layer.lines)):
        review = _whole(review, layer, new_id)
    elif is_conflict or not layer.lines:
        review = edit(review, start, end, layer, new_id)
    else:
        review = written(review, [change], new_id=new_id, size=size)
    return _contested(review, start, layer.run) if is_conflict else review


def _whole(review: FileReview, layer: Layer, new_id: NewId) -> FileReview:
    """One hunk over the whole file."""
    visible = [hunk for hunk in review.hunks if hunk.is_shown]
    if any(hunk.has_user_layer for hunk in visible):
        raise UserEditConflict(f"{review.path}: the user has edited it; decide those hunks first.")
    layers = stacked(fused(review.base, 0, len(review.base), visible), layer)
    name = visible[0].id if visible else new_id()
    hunk = Hunk(
        id=name,
        a=0,
        b=len(review.base),
        layers=layers,
        conflict=any(visible_hunk.conflict for visible_hunk in visible),
    )
    return msgspec.structs.replace(review, hunks=tidied(review.base, hunk), rev=review.rev + 1)


def _contested(review: FileReview, start: int, run: str) -> FileReview:
    """The review with the run's hunk at line ``start`` of the buffer marked as a conflict: the run saw other lines
    below it.
    """
    contested = {
        position.hunk.id
        for position in placed(review)
        if position.hunk.top.run == run and position.start <= start <= position.end
    }
    hunks = tuple(
        msgspec.structs.replace(hunk, conflict=True) if hunk.id in contested else hunk
        for hunk in review.hunks
    )
    return msgspec.structs.replace(review, hunks=hunks)
