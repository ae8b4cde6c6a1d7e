"""What the user typed becomes hunks of a review."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from newel.review.model.batch_edit import Piece, behind_mark, edit_each
from newel.review.model.file_lines import head_of, is_blob, kind_of
from newel.review.model.file_review import BadRange, FileReview, Layer, Lines, buffer, new_hunk_id
from newel.review_jobs.errors import Unprocessable
from newel.review_jobs.schemas import Splice


def spliced(review: FileReview, splices: Sequence[Splice]) -> FileReview:
    """The review with the user's splices in its buffer. Raises ``BadRange`` where lines do not exist or splices overlap, and
    ``Unprocessable`` of a file that is kept as one piece.
    """
    if not splices:
        return review
    after = edit_each(review, _pieces(review, splices), new_hunk_id)
    return msgspec.structs.replace(after, rev=review.rev + 1)


def _pieces(review: FileReview, splices: Sequence[Splice]) -> list[Piece]:
    """The splices in their order, once it is sure that they can be."""
    text = buffer(review)
    if is_blob(text):
        raise Unprocessable(f"{review.path} is no UTF-8 text; its lines cannot be edited.")
    if kind_of(text) not in {"absent", "file"}:
        raise Unprocessable(f"{review.path} is a {kind_of(text)}; only the lines of files can be edited.")
    head = int(head_of(text) is not None)
    pieces: list[Piece] = []
    for each in sorted(splices, key=lambda one: (one.start_line, one.delete_lines)):
        start = each.start_line - 1 + head
        end = start + each.delete_lines
        if each.start_line < 1 or each.delete_lines < 0 or end > len(text):
            raise BadRange(
                f"{review.path} has {len(text) - head} lines; {each.delete_lines} from line {each.start_line} on are not there."
            )
        if pieces and start < pieces[-1][1]:
            raise BadRange(f"{review.path}: two splices overlap at line {each.start_line}.")
        pieces.append((start, end, Layer(origin="user", lines=_lines(each.new_text))))
    return behind_mark(text, pieces)


def _lines(text: str) -> Lines:
    parts = text.split("\n")
    last = parts.pop()
    return (*(part + "\n" for part in parts), *([last] if last else []))
