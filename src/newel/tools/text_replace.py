"""Several replacements in one file, all or none, with an error message for each that cannot be made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from newel.agent.errors import ToolError
from newel.diff.unified import DiffBlock, compare, split_lines
from newel.tools.file_tool import BOM, FileEdit, encode_text
from newel.tools.fuzzy_match import TextSpan, find, replacement

MAX_LISTED: Final = 20
"""Matches of an ambiguous text that are named."""

MAX_REPLACEMENTS: Final = 10_000
"""Replacements in one call."""

MAX_QUOTED: Final = 200
"""Characters of a line that an error quotes."""

MAX_SEARCHED_BYTES: Final = 500_000
"""In larger files no lines similar to a missing text are searched for."""

UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
"""The byte order marks of UTF-16, which also contains NULs, unlike other encodings."""


class Replacement(msgspec.Struct, frozen=True):
    old: str
    new: str
    all: bool = False


class _Change(msgspec.Struct, frozen=True, order=True):
    span: TextSpan
    new: bytes
    number: int


def edit(content: bytes, expect: str, replacements: Sequence[Replacement], name: str) -> FileEdit:
    """Make all ``replacements``, each matched against the original content, with the hash ``expect``, of the file called ``name``.

    Raises ``ToolError`` if the file is UTF-16, if the text of a replacement is missing, ambiguous without ``all``, or overlaps
    another's, if there are more than ``MAX_REPLACEMENTS``, or if nothing would change.
    """
    if content.startswith(UTF16) and b"\0" in content:
        raise ToolError(
            f"{name} is UTF-16, and `edit` only changes UTF-8. Convert the file, or use a program that keeps the encoding. "
            "Nothing was changed."
        )
    changes: list[_Change] = []
    for number, item in enumerate(replacements, 1):
        which = f"edit {number}: " if len(replacements) > 1 else ""
        changes += _changes(content, item, number, name, which)
        if len(changes) > MAX_REPLACEMENTS:
            raise ToolError(
                f"{which}more than {MAX_REPLACEMENTS:,} replacements would be made in {name}, the limit of one call. "
                "Use sed with bash. Nothing was changed."
            )
    changes.sort()  # by position: the replacements may come in any order, and each is matched on its own
    for change, other in pairwise(changes):
        if other.span.start < change.span.end:
            a, b = sorted((change.number, other.number))
            raise ToolError(
                f"Edits {a} and {b} overlap at line {_line(content, other.span.start)} of {name}. "
                "Merge them into one edit. Nothing was changed."
            )
    new = _apply(content, changes)
    if new == content:
        raise ToolError(f"The edit would not change {name}: it already has the new text.")
    return FileEdit(expect, new, split_lines(content), list(_blocks(content, changes)), len(changes))


def _last_line(content: bytes) -> str:
    """The last line that is not blank, on a line of its own; empty if it is too long to quote."""
    line = content.rstrip().rpartition(b"\n")[2].rstrip(b"\r").decode(errors="replace")
    return f"\n{line}" if 0 < len(line) <= MAX_QUOTED else " it is long; read the file."


def _changes(content: bytes, item: Replacement, number: int, name: str, which: str) -> list[_Change]:
    old, new = encode_text(item.old, "old_string"), encode_text(item.new, "new_string")
    if not old:
        raise ToolError(
            f"{which}old_string is empty, but {name} is not. Quote the text to replace. To add text at the end, quote the last "
            f"line, and give it with the addition as new_string:{_last_line(content)}"
        )
    if old == new:
        raise ToolError(f"{which}old_string and new_string are the same. Nothing was changed.")
    spans = find(
        content, old, overlapping=not item.all, at_most=1 + (MAX_REPLACEMENTS if item.all else MAX_LISTED)
    )
    if not spans:
        raise ToolError(f"{which}old_string not found in {name}.{_similar_lines(content, item.old)}")
    if len(spans) > 1 and not item.all:
        lines = ", ".join(str(_line(content, span.start)) for span in spans[:MAX_LISTED])
        count, more = (f"{MAX_LISTED}+", " …") if len(spans) > MAX_LISTED else (str(len(spans)), "")
        raise ToolError(
            f"{which}old_string occurs {count} times in {name}, at lines {lines}{more}. "
            "Include more of the surrounding lines, or set replace_all. Nothing was changed."
        )
    return [_replace(content, span, old, new, number) for span in spans]


def _replace(content: bytes, span: TextSpan, old: bytes, new: bytes, number: int) -> _Change:
    """One replacement. A byte order mark stays in place, quoted or not: ``read`` does not show it."""
    if content.startswith(BOM) and span.start <= len(BOM):
        old = old.removeprefix(BOM) if span.start == 0 else old
        span, new = TextSpan(len(BOM), span.end), new.removeprefix(BOM)
    return _Change(span, replacement(content, span, old, new), number)


def _apply(content: bytes, changes: Sequence[_Change]) -> bytes:
    pieces: list[bytes] = []
    done = 0
    for change in changes:
        pieces += [content[done : change.span.start], change.new]
        done = change.span.end
    return b"".join([*pieces, content[done:]])


def _blocks(content: bytes, changes: Sequence[_Change]) -> Iterator[DiffBlock[bytes]]:
    """The changes as whole lines; changes of adjacent lines are compared together."""
    counted = line = first = 0
    while first < len(changes):
        start = content.rfind(b"\n", 0, changes[first].span.start) + 1
        last = first
        end = _line_after(content, changes[first].span.end)
        while last + 1 < len(changes) and changes[last + 1].span.start <= end:
            last += 1
            if changes[last].span.end >= end:
                end = _line_after(content, changes[last].span.end)
        line += content.count(b"\n", counted, start)
        counted = start
        group = [
            msgspec.structs.replace(change, span=TextSpan(change.span.start - start, change.span.end - start))
            for change in changes[first : last + 1]
        ]
        old = content[start:end]
        for block in compare(split_lines(old), split_lines(_apply(old, group))):
            yield DiffBlock(line + block.start, line + block.end, block.new)
        first = last + 1


def _line_after(content: bytes, position: int) -> int:
    return content.find(b"\n", position) + 1 or len(content)


def _line(content: bytes, position: int) -> int:
    return content.count(b"\n", 0, position) + 1


def _similar_lines(content: bytes, text: str) -> str:
    """The numbered lines of the file that are most similar to a missing text."""
    hint = " Read the file again and quote it exactly, including whitespace. Nothing was changed."
    first = next((line.strip() for line in text.split("\n") if line.strip()), "")
    if not first or len(content) > MAX_SEARCHED_BYTES:
        return hint
    import difflib

    lines = content.decode(errors="replace").split("\n")
    near = difflib.get_close_matches(first[:500], dict.fromkeys(line.strip()[:500] for line in lines), n=1)
    if not near:
        return hint
    at = next(index for index, line in enumerate(lines) if line.strip()[:500] == near[0])
    excerpt = lines[at : at + min(10, text.strip().count("\n") + 1)]
    similar = "\n".join(f"{at + index + 1:6}\t{line[:500].rstrip()}" for index, line in enumerate(excerpt))
    return f" The most similar lines:\n{similar}\n{hint.strip()}"
