"""A model's edits, validated against the current file and split into hunks of readable size."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from newel.agent.formatting import pluralize
from newel.diff.patience import diff
from newel.review.model.batch_edit import Piece, behind_mark, edit_each
from newel.review.model.edits import NewId
from newel.review.model.file_lines import head_of, is_blob, kind_of
from newel.review.model.file_review import BadRange, Conflict, FileReview, Layer, Lines, buffer
from newel.tools.review.propose_edits import ProposedEdit, lines_hash

_BLANK: Final = re.compile(r"^\s*$")
_SENTENCE: Final = re.compile(r"[.!?…:;]\s*$")


class HunkSize(msgspec.Struct, frozen=True):
    """The largest hunk that is shown in one piece: in lines, and in bytes of UTF-8."""

    lines: int = 80
    bytes: int = 8192

    def fits(self, lines: Sequence[str]) -> bool:
        return len(lines) <= self.lines and sum(len(line.encode()) for line in lines) <= self.bytes


DEFAULT_SIZE: Final = HunkSize()


def propose(
    review: FileReview,
    edits: Sequence[ProposedEdit],
    *,
    run: str,
    new_id: NewId,
    size: HunkSize = DEFAULT_SIZE,
) -> FileReview:
    """The review with a model's edits of one file, whose lines refer to its current buffer. All edits, or none.

    Raises ``BadRange`` for lines that do not exist and for overlapping edits, ``Conflict`` if the file differs
    from the text that an edit expects, and ``UserEditConflict`` if an edit touches the user's lines.
    """
    changes = changes_of(review, edits, run)
    return marked(written(review, changes, new_id=new_id, size=size), run, size)


def changes_of(review: FileReview, edits: Sequence[ProposedEdit], run: str) -> list[Piece]:
    """A model's edits as changes of the buffer, in its order. Raises ``BadRange`` and ``Conflict``."""
    text = buffer(review)
    for one, other in _overlaps(edits):
        raise BadRange(f"{review.path}: edits {one} and {other} overlap. Merge them into one edit.")
    changes: list[Piece] = []
    for change in sorted(edits, key=lambda edit: (edit.start_line, edit.operation != "insert")):
        start, end = place(text, change)
        layer = Layer(origin="agent", lines=_lines(change, text, end), run=run, edits=(change.edit_id,))
        changes.append((start, end, layer))
    return behind_mark(text, changes)


def written(review: FileReview, changes: Sequence[Piece], *, new_id: NewId, size: HunkSize) -> FileReview:
    """The review with lines of the buffer replaced, in hunks that fit ``size`` as far as possible. The ``changes``
    are in the order of the buffer and do not overlap. Raises the errors of ``edit``.
    """
    text = buffer(review)
    pieces = [
        (a, b, msgspec.structs.replace(layer, lines=new))
        for start, end, layer in changes
        for a, b, new in _pieces(text, start, end, layer.lines, size)
    ]
    return edit_each(review, pieces, new_id)


def place(text: Lines, change: ProposedEdit) -> tuple[int, int]:
    """The lines ``start:end`` of the buffer that an edit refers to. Raises ``BadRange`` and ``Conflict``."""
    if is_blob(text) or kind_of(text) not in {"absent", "file"}:
        raise BadRange(f"{change.file_path} is not UTF-8 text; its lines cannot be edited.")
    head = int(head_of(text) is not None)
    count = len(text) - head
    last = change.start_line - 1 if change.operation == "insert" else change.end_line or change.start_line
    if change.start_line > count + (change.operation == "insert") or last > count:
        raise BadRange(
            f"Edit {change.edit_id}: {change.file_path} has {pluralize(count, 'line')}, not {max(change.start_line, last)}. Read the file again."
        )
    if last < change.start_line - 1 or (last < change.start_line and change.operation != "insert"):
        raise BadRange(f"Edit {change.edit_id}: its lines {change.start_line} to {last} are reversed.")
    start, end = change.start_line - 1 + head, last + head
    seen = max(last, change.end_line or change.start_line)  # of an insertion, the lines that follow it
    text_there = text[start : seen + head]
    if change.expected_hash is not None and change.expected_hash != lines_hash(text_there):
        raise Conflict(
            f"Edit {change.edit_id}: lines {change.start_line} to {last} of {change.file_path} are not what the edit expects. "
            "Read them again."
        )
    return start, end


def _overlaps(edits: Sequence[ProposedEdit]) -> Iterator[tuple[str, str]]:
    before: ProposedEdit | None = None
    for change in sorted(edits, key=lambda edit: (edit.start_line, edit.operation != "insert")):
        if before is not None and change.start_line <= _last(before):
            yield before.edit_id, change.edit_id
        if before is None or _last(change) >= _last(before):
            before = change


def _last(change: ProposedEdit) -> int:
    return change.start_line - 1 if change.operation == "insert" else change.end_line or change.start_line


def _lines(change: ProposedEdit, text: Lines, end: int) -> Lines:
    r"""The new lines of an edit, with the line ends of the file (``\n`` or ``\r\n``)."""
    crlf = any(line.endswith("\r\n") for line in text)
    parts = change.new_text.split("\n")
    last = parts.pop()
    lines = [part.removesuffix("\r") + ("\r\n" if crlf else "\n") for part in parts]
    if last:
        # Only the last line of a file may lack an end, and only if it lacked one before.
        open_end = end == len(text) and bool(text) and not text[-1].endswith("\n")
        lines.append(last if open_end else last + ("\r\n" if crlf else "\n"))
    return tuple(lines)


def _pieces(
    text: Lines, start: int, end: int, lines: Lines, size: HunkSize
) -> Iterator[tuple[int, int, Lines]]:
    """The hunks of an edit: split at unchanged lines, and if still too large at blank lines, then at the ends of
    sentences.
    """
    for span in diff(text[start:end], lines):
        a, b, new = start + span.a0, start + span.a1, lines[span.b0 : span.b1]
        if not new:
            yield from ((a + first, a + last, ()) for first, last in _cut(text[a:b], size))
            continue
        for first, last in _cut(new, size):
            # The first piece deletes all old lines.
            yield (b if first else a, b, new[first:last])


def _cut(lines: Lines, size: HunkSize) -> Iterator[tuple[int, int]]:
    """Pieces that fit, as far as there are places to cut; a part without such places remains one piece."""
    first = 0
    while not size.fits(lines[first:]):
        room = first
        while size.fits(lines[first : room + 1]):
            room += 1
        cut = _last_end(lines, first, room)
        if cut is None:
            break
        yield first, cut
        first = cut
    yield first, len(lines)


def _last_end(lines: Lines, first: int, room: int) -> int | None:
    """The last place up to ``room`` where a piece may end: after a blank line, or else after a sentence."""
    for end in (_BLANK, _SENTENCE):
        for cut in range(room, first, -1):
            if end.search(lines[cut - 1]):
                return cut
    return None


def marked(review: FileReview, run: str, size: HunkSize) -> FileReview:
    """The review with the run's hunks marked that are still too large."""
    hunks = tuple(
        msgspec.structs.replace(
            hunk, oversized=not (size.fits(hunk.top.lines) and size.fits(review.base[hunk.a : hunk.b]))
        )
        if hunk.top.run == run
        else hunk
        for hunk in review.hunks
    )
    return msgspec.structs.replace(review, hunks=hunks)
