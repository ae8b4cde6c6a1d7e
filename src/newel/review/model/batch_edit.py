"""Many edits of one text. Each costs as much as the text is long: so a text is halved as long as there are many of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

import msgspec

from newel.review.model.edits import NewId, edit
from newel.review.model.file_lines import head_of, is_blob
from newel.review.model.file_review import FileReview, Hunk, Layer, Lines, buffer, joined, placed

Piece = tuple[int, int, Layer]
"""Lines ``start:end`` of the buffer, and what comes in their place."""

_FEW: Final = 8
_NEAR: Final = 32
"""Places in the middle that are tried for a cut."""


def edit_each(review: FileReview, pieces: Sequence[Piece], new_id: NewId, few: int = _FEW) -> FileReview:
    """As ``edit`` with one piece after the other, from the end to the beginning. They are of the buffer as it is, in its
    order, and do not overlap; up to ``few`` of them are not worth a cut. Raises as ``edit``.
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
    for _, _, layer in pieces:  # a file comes into being, and begins with the first of them
        end = len(buffer(review))
        review = edit(review, end, end, layer, new_id)
    return review


def _middles(count: int) -> chain[int]:
    half, near = count // 2, min(_NEAR, count // 2 - 1)
    return chain(range(half, half + near), range(half - 1, half - near, -1))


def _cut(review: FileReview, one: Piece, other: Piece) -> tuple[FileReview, FileReview, int] | None:
    """The review up to a place between two pieces and from there on, and how many base lines are before it. None where
    no line is between them, or a hunk lies over the place: one half would have a part in what happens in the other.
    """
    place = one[1]
    if is_blob(review.base) or other[0] == place:
        return None
    hunks = list(placed(review))
    count = sum(each.end <= place for each in hunks)
    left, right = hunks[:count], hunks[count:]
    if right and right[0].start < place:
        return None
    at = place - sum(
        len(each.hunk.top.lines) - (each.hunk.b - each.hunk.a) for each in left if each.hunk.is_shown
    )
    if not 0 < at < len(review.base):
        return None
    moved = tuple(_moved(each.hunk, -at) for each in right)
    return (
        msgspec.structs.replace(review, base=review.base[:at], hunks=tuple(each.hunk for each in left)),
        msgspec.structs.replace(review, base=review.base[at:], hunks=moved),
        at,
    )


def _moved(hunk: Hunk, by: int) -> Hunk:
    return msgspec.structs.replace(hunk, a=hunk.a + by, b=hunk.b + by)


MARK: Final = "\ufeff"


def behind_mark(text: Lines, pieces: Sequence[Piece]) -> list[Piece]:
    """Edits of lines of ``text``, in its order and without overlaps, as they leave its byte order mark the first character.

    An edit in front of the first line, or of it, becomes one that has the mark and what stays of that line. Texts without a
    mark, and edits further down, stay as they are.
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
