"""A new version of one hunk, proposed by an agent because the user asked for it. All other hunks stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from newel.review.model.edits import stacked, tidied
from newel.review.model.file_lines import head_of, is_blob, make_head
from newel.review.model.file_review import (
    FileReview,
    Hunk,
    HunkPosition,
    Layer,
    Lines,
    ReviewError,
    UserEditConflict,
    buffer,
    joined,
    placed,
    root_of,
)
from newel.review.model.proposal import HunkSize, changes_of, marked
from newel.tools.review.propose_edits import ProposedEdit


class OutsideHunk(ReviewError):
    """The edit changes other lines than those of the hunk."""


class NotRevisable(ReviewError):
    """The hunk has no lines that an agent may propose anew."""


def revisable(review: FileReview, hunk_id: str) -> HunkPosition:
    """The hunk that was created under this id, and its lines in the buffer: those of the file if it is rejected. Raises
    ``UnknownHunk``; ``UserEditConflict`` if the user has edited it; ``NotRevisable`` if it has no lines.
    """
    hunk = review.successor(hunk_id) or review.hunk(hunk_id)
    position = next(each for each in placed(review) if each.hunk is hunk)
    if hunk.has_user_layer:
        raise UserEditConflict(
            f"{review.path}: you have edited hunk {hunk.id}, and an agent does not change your lines. Discard them first, "
            "or edit the hunk further."
        )
    old, new = review.base[hunk.a : hunk.b], hunk.top.lines
    if is_blob(old) or is_blob(new) or not any(not line.startswith("\0") for line in (*old, *new)):
        raise NotRevisable(f"{review.path}: hunk {hunk.id} changes no lines of text.")
    return position


def revised(
    review: FileReview, hunk_id: str, edits: Sequence[ProposedEdit], *, run: str, size: HunkSize
) -> FileReview:
    """The review with a new version of a hunk, undecided. The edits refer to the lines of the buffer, and may change those
    of the hunk only. The earlier version is the layer below; a version equal to the base is no hunk. A version that replaces a
    rejected hunk is based on the current file, so it is no conflict.

    Raises the errors of ``revisable`` and ``changes_of``, and ``OutsideHunk``.
    """
    hunk, start, end = revisable(review, hunk_id)
    text = buffer(review)
    pieces: list[Lines] = []
    at = start
    names: tuple[str, ...] = ()
    for first, last, layer in changes_of(review, edits, run):
        if first < start or last > end:
            raise OutsideHunk(
                f"{review.path}: {_limits(text, start, end)} Propose edits of these lines only."
            )
        pieces += [text[at:first], layer.lines]
        at, names = last, (*names, *layer.edits)
    lines = joined(*pieces, text[at:end])
    if lines and not text and head_of(lines) is None:  # the hunk deletes the file
        lines = (*(review.base[:1] or (make_head(),)), *lines)
    lines = joined(lines, text[end : end + 1])[: len(lines)]
    layer = Layer(origin="agent", lines=lines, run=run, edits=names)
    after = Hunk(
        id=hunk.id,
        a=hunk.a,
        b=hunk.b,
        layers=stacked(hunk.layers, layer),
        conflict=hunk.conflict and hunk.is_shown,
    )
    index = review.hunks.index(hunk)
    hunks = (*review.hunks[:index], *tidied(review.base, after), *review.hunks[index + 1 :])
    return marked(msgspec.structs.replace(review, hunks=hunks, rev=review.rev + 1), run, size)


def _limits(text: Lines, start: int, end: int) -> str:
    head = int(head_of(text) is not None)
    if start == end:
        return f"This task may only insert lines before line {max(start - head, 0) + 1}."
    return f"This task may change only the lines {max(start - head, 0) + 1} to {end - head}."


def versions(hunk: Hunk) -> tuple[Hunk, ...]:
    """The earlier proposals of a hunk by other runs, the oldest first, each as a hunk."""
    agents = [number for number, layer in enumerate(hunk.layers) if layer.origin == "agent"]
    return tuple(
        msgspec.structs.replace(hunk, id=root_of(hunk.id), layers=hunk.layers[: number + 1])
        for number in agents[:-1]
    )
