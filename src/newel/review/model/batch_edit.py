"""Many edits of one text. An edit costs time in proportion to the length of the text, so the text is halved while it
has many edits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

import msgspec

from newel.review.model.edits import NewId, edit
from newel.review.model.file_lines import head_of, is_blob
from newel.review.model.file_review import FileReview, Hunk, Layer, Lines, buffer, joined, placed

Piece = tuple[int, int, Layer]
"""Lines ``start:end`` of the buffer, and their replacement."""

_FEW: Final = 8
_NEAR: Final = 32
"""Positions near the middle that are tried for a cut."""


def edit_each(review: FileReview, pieces: Sequence[Piece], new_id: NewId, few: int = _FEW) -> FileReview:
    """Like ``edit`` for each piece, from the last to the first. The pieces are in the order of the buffer and do not
    overlap; ``few`` of them or less are edited without a cut. Raises the errors of ``edit``.
    """
    for middle in _middles(len(pieces)) if len(pieces) > few else ():
        if (cut := _cut(review, pieces[middle - 1], pieces[middle])) is not None:
            left, right, shift = cut
            start = len(buffer(left))
            rest = [(a - start, b - start, layer) for a, b, layer in pieces[middle:]]
            right = edit_each(right, rest, new_id, few)
            left = edit_each(left, pieces[:middle], new_id, few)
            hunks = (*left.hunks, *(_moved(hunk, shift) for hunk in right.hunks))
            return msgspec.structs.replace(review, hunks=hunks, rev=review.rev + len(pieces))
    if buffer(review):
        for start, end, layer in reversed(pieces):
            review = edit(review, start, end, layer, new_id)
        return review
    for _, _, layer in pieces:  # the file is created, and its first edit begins it
        end = len(buffer(review))
        review = edit(review, end, end, layer, new_id)
    return review


def _middles(count: int) -> chain[int]:
    half, near = count // 2, min(_NEAR, count // 2 - 1)
    return chain(range(half, half + near), range(half - 1, half - near, -1))


def _cut(review: FileReview, piece: Piece, other: Piece) -> tuple[FileReview, FileReview, int] | None:
    """The review before and after a line between two pieces, and the number of base lines before it. None if there
    is no such line, or if a hunk spans it: then one half would depend on edits in the other.
    """
    place = piece[1]
    if is_blob(review.base) or other[0] == place:
        return None
    hunks = list(placed(review))
    count = sum(hunk.end <= place for hunk in hunks)
    left, right = hunks[:count], hunks[count:]
    if right and right[0].start < place:
        return None
    at = place - sum(
        len(hunk.hunk.top.lines) - (hunk.hunk.b - hunk.hunk.a) for hunk in left if hunk.hunk.is_shown
    )
    if not 0 < at < len(review.base):
        return None
    moved = tuple(_moved(hunk.hunk, -at) for hunk in right)
    return (
        msgspec.structs.replace(review, base=review.base[:at], hunks=tuple(hunk.hunk for hunk in left)),
        msgspec.structs.replace(review, base=review.base[at:], hunks=moved),
        at,
    )


def _moved(hunk: Hunk, by: int) -> Hunk:
    return msgspec.structs.replace(hunk, a=hunk.a + by, b=hunk.b + by)


MARK: Final = "\ufeff"


def behind_mark(text: Lines, pieces: Sequence[Piece]) -> list[Piece]:
    """Edits of lines of ``text``, in order and without overlaps, changed so that its byte order mark remains the
    first character.

    An edit before or at the first line becomes an edit that includes the mark and the rest of that line. Other
    edits, and edits of a text without a mark, are returned unchanged.
    """
    first = int(head_of(text) is not None)
    if not any(line.startswith(MARK) for line in text[first : first + 1]) or not pieces:
        return list(pieces)
    start, end, layer = pieces[0]
    if start > first:
        return list(pieces)
    lines, rest = layer.lines, list(pieces[1:])
    while rest and (rest[0][0] == first or (not lines and rest[0][0] == end)):
        _, end, other = rest.pop(0)
        edits = tuple(dict.fromkeys((*layer.edits, *other.edits)))
        layer, lines = msgspec.structs.replace(layer, edits=edits), joined(lines, other.lines)
    if end == first:
        end, left = first + 1, text[first].removeprefix(MARK)
        lines = joined(lines, (left,)) if left else lines
    elif not lines and end < len(text):
        end, lines = end + 1, (text[end],)
    head, body = lines[: first - start], lines[first - start :]
    marked = MARK + (body[0].removeprefix(MARK) if body else "")
    return [(start, end, msgspec.structs.replace(layer, lines=(*head, marked, *body[1:]))), *rest]
