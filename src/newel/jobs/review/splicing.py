"""What the user typed becomes hunks of a review.

An edit costs what the text around it is long. So that thousands of them, as a replacement all over a file makes, do not cost
their square, a long row of splices is carried out part by part: the review is cut where neither a hunk nor a splice is near,
and put together again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from newel.jobs.review.errors import Unprocessable
from newel.jobs.review.payloads import Splice
from newel.review.edits import edit
from newel.review.ledger import BadRange, FileReview, Hunk, Layer, Lines, buffer, new_hunk_id, placed
from newel.review.text import head_of, is_blob

PART: Final = 16
"""Splices of one part, at least."""


class _Edit(NamedTuple):
    """New lines in place of lines ``start:end`` of the buffer, which counts from 0 and from the file's head on."""

    start: int
    end: int
    lines: Lines


class _Part(NamedTuple):
    """A piece of a review with its edits, whose lines count from ``at`` in the buffer and from ``base`` in the base."""

    review: FileReview
    edits: Sequence[_Edit]
    at: int
    base: int


def spliced(review: FileReview, splices: Sequence[Splice], *, part: int = PART) -> FileReview:
    """The review with the user's splices in its buffer. Raises ``BadRange`` where lines do not exist or splices overlap, and
    ``Unprocessable`` of a file that is kept as one piece.
    """
    edits = _edits(review, splices)
    if not edits:
        return review
    hunks: list[Hunk] = []
    for piece in _parts(review, edits, part):
        after = piece.review
        # From the end to the beginning, so that the numbers of those that are left stay right.
        for each in reversed(piece.edits):
            layer = Layer(origin="user", lines=each.lines)
            after = edit(after, each.start - piece.at, each.end - piece.at, layer, new_hunk_id)
        hunks += [_moved(hunk, piece.base) for hunk in after.hunks]
    return msgspec.structs.replace(review, hunks=tuple(hunks), rev=review.rev + 1)


def _edits(review: FileReview, splices: Sequence[Splice]) -> list[_Edit]:
    """The splices in their order, once it is sure that they can be."""
    text = buffer(review)
    if is_blob(text):
        raise Unprocessable(f"{review.path} is no UTF-8 text; its lines cannot be edited.")
    head = int(head_of(text) is not None)
    edits: list[_Edit] = []
    for each in sorted(splices, key=lambda one: (one.start_line, one.delete_lines)):
        start = each.start_line - 1 + head
        end = start + each.delete_lines
        if each.start_line < 1 or each.delete_lines < 0 or end > len(text):
            raise BadRange(
                f"{review.path} has {len(text) - head} lines; {each.delete_lines} from line {each.start_line} on are not there."
            )
        if edits and start < edits[-1].end:
            raise BadRange(f"{review.path}: two splices overlap at line {each.start_line}.")
        edits.append(_Edit(start, end, _lines(each.new_text)))
    return edits


def _parts(review: FileReview, edits: Sequence[_Edit], size: int) -> Iterator[_Part]:
    """The review in pieces of at least ``size`` edits."""
    at = base = first = 0
    for number, cut, cut_base in _cuts(review, edits):
        if number - first >= size:
            yield _Part(_piece(review, base, cut_base), edits[first:number], at, base)
            at, base, first = cut, cut_base, number
    yield _Part(_piece(review, base, len(review.base)), edits[first:], at, base)


def _cuts(review: FileReview, edits: Sequence[_Edit]) -> Iterator[tuple[int, int, int]]:
    """Where the review can be cut before an edit of some number, in lines of the buffer and of the base: lines of the base
    that no hunk and no edit touches stand on both sides.
    """
    hunks = list(placed(review))
    passed = shift = 0
    for number in range(1, len(edits)):
        cut = edits[number].start - 1
        while passed < len(hunks) and hunks[passed].end < cut:
            hunk, start, end = hunks[passed]
            shift += end - start - (hunk.b - hunk.a)
            passed += 1
        is_near_hunk = passed < len(hunks) and hunks[passed].start <= cut
        if edits[number - 1].end < cut and not is_near_hunk:
            yield number, cut, cut - shift


def _piece(review: FileReview, start: int, end: int) -> FileReview:
    hunks = tuple(_moved(hunk, -start) for hunk in review.hunks if start <= hunk.a and hunk.b <= end)
    return FileReview(path=review.path, base=review.base[start:end], hunks=hunks)


def _moved(hunk: Hunk, by: int) -> Hunk:
    return msgspec.structs.replace(hunk, a=hunk.a + by, b=hunk.b + by) if by else hunk


def _lines(text: str) -> Lines:
    parts = text.split("\n")
    last = parts.pop()
    return (*(part + "\n" for part in parts), *([last] if last else []))
