r"""The text of a hunk as the user edits it: its new lines, and the hunk with other lines.

The user sees ``\n`` where every line of the hunk ends with ``\r\n``, no byte order mark, and a line end after the last
line. ``with_text`` restores all three, so an edit of one line changes one line.
"""

from __future__ import annotations

from newel.review.model.batch_edit import MARK, behind_mark, edit_each
from newel.review.model.decisions import reopen
from newel.review.model.edits import NewId
from newel.review.model.file_lines import head_of, is_blob, kind_of
from newel.review.model.file_review import (
    FileReview,
    Hunk,
    Layer,
    Lines,
    ReviewError,
    buffer,
    is_head,
    placed,
)


class NotEditable(ReviewError):
    """The hunk has no text."""


class NothingLeft(ReviewError):
    """The edited hunk would change nothing."""


def text_of(review: FileReview, hunk: Hunk) -> str:
    """The new lines of a hunk; each line ends with a line feed. Raises ``NotEditable``."""
    old, new = review.base[hunk.a : hunk.b], hunk.top.lines
    if reason := _why_not(old, new):
        raise NotEditable(f"This hunk cannot be edited: {reason}.")
    text = "".join(_body(new))
    text = text.removeprefix(MARK) if _place(review, hunk)[0] <= 1 else text  # line 0 is the head
    text = text.replace("\r\n", "\n") if _is_crlf(review, hunk) else text
    return text if not text or text.endswith("\n") else text + "\n"


def with_text(review: FileReview, hunk_id: str, text: str, new_id: NewId) -> FileReview:
    """The review with ``text`` instead of the new lines of a hunk, as the user's layer of it. A rejected hunk is pending again. The
    same review if the text is as before. Raises ``StaleRevision`` and ``UnknownHunk`` if the hunk has changed, ``NotEditable``,
    ``NothingLeft`` if the text is that of the file, and ``BadText``.
    """
    hunk = review.hunk(hunk_id)
    if text == text_of(review, hunk):
        return review
    lines = _lines_of(review, hunk, text)
    if lines == hunk.top.lines:  # an empty line at the end of a file without a last line feed is none
        return review
    if lines == review.base[hunk.a : hunk.b]:
        raise NothingLeft("This is what the file has already. Reject the hunk instead.")
    review = reopen(review, hunk_id)
    start, end = _place(review, hunk)
    pieces = behind_mark(buffer(review), [(start, end, Layer(origin="user", lines=lines))])
    return edit_each(review, pieces, new_id)


def _why_not(old: Lines, new: Lines) -> str:
    if is_blob(old) or is_blob(new):
        return "it is not text"
    if any(kind_of(lines) not in {"absent", "file"} for lines in (old, new)):
        return "it changes what kind of file this is"
    if head_of(old) is not None and not new:
        return "it deletes the file"
    if old and not _body(old) and not _body(new):
        return "it changes only the mode of the file"
    return ""


def _body(lines: Lines) -> Lines:
    return lines[1:] if lines and is_head(lines[0]) else lines


def _place(review: FileReview, hunk: Hunk) -> tuple[int, int]:
    """The lines ``start:end`` of the buffer that are the hunk's."""
    return next((start, end) for each, start, end in placed(review) if each.id == hunk.id)


def _is_crlf(review: FileReview, hunk: Hunk) -> bool:
    r"""Whether all lines of the hunk end with ``\r\n``; of a hunk that only deletes lines, those."""
    lines = [line for line in _body(hunk.top.lines) or _body(review.base[hunk.a : hunk.b]) if "\n" in line]
    return bool(lines) and all(line.endswith("\r\n") for line in lines)


def _lines_of(review: FileReview, hunk: Hunk, text: str) -> Lines:
    """The lines that a text stands for, with the head of the hunk."""
    new = hunk.top.lines
    head = new[: len(new) - len(_body(new))]
    current = _body(new) or _body(review.base[hunk.a : hunk.b])
    if current and not current[-1].endswith("\n"):
        text = text.removesuffix("\n")  # the file ends without one
    text = text.replace("\n", "\r\n") if _is_crlf(review, hunk) else text
    *lines, last = text.split("\n")
    return (*head, *(line + "\n" for line in lines), *filter(None, [last]))
