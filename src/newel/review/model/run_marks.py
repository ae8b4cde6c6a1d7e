"""Keeps a file's byte order mark in front: lines that come before its first line come behind the mark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from newel.review.model.batch_edit import Piece
from newel.review.model.file_lines import head_of
from newel.review.model.file_review import Lines, joined

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
