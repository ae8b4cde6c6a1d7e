"""Unified diffs: written from changed lines, and parsed back into them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import AnyStr, Final, Generic, NamedTuple

import msgspec

from newel.agent.formatting import escape_newlines

CONTEXT: Final = 3
MINUS: Final = "\N{MINUS SIGN}"
HUNK = r"@@ -(?P<old>\d+)(?:,(?P<old_size>\d+))? \+(?P<new>\d+)(?:,(?P<new_size>\d+))? @@"


class DiffBlock(msgspec.Struct, Generic[AnyStr], frozen=True):
    """Lines ``start:end`` of the old text (counted from 0) give way to ``new``."""

    start: int
    end: int
    new: list[AnyStr]


def split_lines(data: bytes) -> list[bytes]:
    r"""The lines with their ends. Only ``\n`` ends a line; a ``\r`` before it belongs to the end."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def compare(old: Sequence[bytes], new: Sequence[bytes]) -> list[DiffBlock[bytes]]:
    """The blocks that make ``new`` of ``old``."""
    from newel.diff.patience import diff

    return [DiffBlock(span.a0, span.a1, list(new[span.b0 : span.b1])) for span in diff(old, new)]


def unified_diff(
    path: str, old: Sequence[bytes] | None, blocks: Sequence[DiffBlock[bytes]], *, limit: int | None = None
) -> str:
    """The diff that ``blocks``, in order and apart from each other, make of ``old``; None is no file.

    Bytes that are not UTF-8 are shown as U+FFFD. Beyond ``limit`` characters it is cut, and says so.
    """
    path = escape_newlines(path)
    pieces = [f"--- {path}\n" if old is not None else "--- /dev/null\n", f"+++ {path}\n"]
    size = 0
    for piece in hunks(old or [], blocks):
        size += len(piece)
        if limit is not None and size > limit:
            pieces.append("… the diff goes on …\n")
            break
        pieces.append(piece)
    return "".join(pieces) if blocks else ""


def describe_diff(path: str, old: Sequence[bytes] | None, blocks: Sequence[DiffBlock[bytes]]) -> str:
    """The diff for a user who approves it: it names the file even if no line changes."""
    if any(block.start < block.end or block.new for block in blocks):
        return unified_diff(path, old, blocks)
    path = escape_newlines(path)
    return f"{path}: no change" if old is not None else f"--- /dev/null\n+++ {path}\n(an empty file)"


def hunks(
    old: Sequence[AnyStr], blocks: Sequence[DiffBlock[AnyStr]], *, context: int = CONTEXT, before: int = 0
) -> Iterator[str]:
    """The lines of a unified diff below the names of the files, with ``context`` lines around each change. ``old`` is all of
    a text but its first ``before`` lines; blocks count in ``old``.
    """
    return chain.from_iterable(_hunks(old, blocks, context, before))


def _hunks(
    old: Sequence[AnyStr], blocks: Sequence[DiffBlock[AnyStr]], context: int, before: int
) -> Iterator[list[str]]:
    shift = 0
    first = 0
    while first < len(blocks):
        last = first
        while last + 1 < len(blocks) and blocks[last + 1].start - blocks[last].end <= 2 * context:
            last += 1
        group = blocks[first : last + 1]
        start = max(0, group[0].start - context)
        end = min(len(old), group[-1].end + context)
        grown = sum(len(block.new) - (block.end - block.start) for block in group)
        was, now = before + start, before + start + shift
        lines = [f"@@ -{_range(was, end - start)} +{_range(now, end - start + grown)} @@\n"]
        at = start
        for block in group:
            lines += _marked(" ", old[at : block.start])
            lines += _marked("-", old[block.start : block.end])
            lines += _marked("+", block.new)
            at = block.end
        lines += _marked(" ", old[at:end])
        yield lines
        shift += grown
        first = last + 1


def _range(start: int, count: int) -> str:
    """A range as unified diffs write it: counted from 1, an empty one by the line before it."""
    return f"{start + 1 if count else start},{count}" if count != 1 else f"{start + 1}"


def _marked(mark: str, lines: Sequence[bytes | str]) -> list[str]:
    texts = [line.decode(errors="replace") if isinstance(line, bytes) else line for line in lines]
    return [
        f"{mark}{text}" if text[-1:] == "\n" else f"{mark}{text}\n\\ No newline at end of file\n"
        for text in texts
    ]


class DiffLine(NamedTuple):
    """A line of a hunk: ``mark`` is ``+``, ``-``, or a space for context, ``number`` its line in the old file if it is removed, else in
    the new one. ``hunk`` counts from 0.
    """

    mark: str
    number: int
    text: str
    hunk: int


def changes(diff: str) -> Iterator[DiffLine]:
    """The changed lines of a unified diff, in order; text outside of hunks is skipped."""
    return (line for line in diff_lines(diff) if line.mark != " ")


def diff_lines(diff: str) -> Iterator[DiffLine]:
    """The lines of a unified diff's hunks, in order; text outside of hunks is skipped."""
    hunk, old, new, old_left, new_left = -1, 0, 0, 0, 0
    for line in diff.split("\n"):
        if old_left <= 0 and new_left <= 0:
            if header := re.match(HUNK, line):
                hunk += 1
                old, new = int(header["old"]), int(header["new"])
                old_left, new_left = int(header["old_size"] or 1), int(header["new_size"] or 1)
            continue
        match line[:1]:
            case "-":
                yield DiffLine("-", old, line[1:], hunk)
                old, old_left = old + 1, old_left - 1
            case "+":
                yield DiffLine("+", new, line[1:], hunk)
                new, new_left = new + 1, new_left - 1
            case "\\":
                pass
            case _:
                yield DiffLine(" ", new, line[1:], hunk)
                old, old_left, new, new_left = old + 1, old_left - 1, new + 1, new_left - 1


def changed_lines(diff: str) -> str:
    """How many lines a unified diff adds and removes; nothing where there is no diff."""
    return count_changes([diff])


def count_changes(diffs: Iterable[str]) -> str:
    """``+13 -12``: how many lines unified diffs add and remove, together."""
    marks = [change.mark for diff in diffs for change in changes(diff)]
    return line_counts(marks.count("+"), marks.count("-"))


def line_counts(added: int, removed: int) -> str:
    """``+1,300 -12``, without zeros."""
    parts = [f"+{added:,}" if added else "", f"{MINUS}{removed:,}" if removed else ""]
    return " ".join(part for part in parts if part)
