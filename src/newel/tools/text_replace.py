"""Several replacements in one file, all or none, with words for those that cannot be made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from newel.agent.errors import ToolError
from newel.diff.unified import DiffBlock, compare, split_lines
from newel.tools.fuzzy_match import TextSpan, find, replacement
from newel.tools.text import BOM, encoded

LISTED: Final = 20
"""How many matches of an ambiguous text are named."""

MOST: Final = 10_000
"""How many replacements one call makes."""

SEARCHED: Final = 500_000
"""Bytes of a file in which lines like a missing text are looked for."""

UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
"""How UTF-16 text with a byte order mark begins. It also holds NULs, as other encodings do not."""


class Replacement(msgspec.Struct, frozen=True):
    old: str
    new: str
    all: bool = False


class Edited(msgspec.Struct, frozen=True):
    """The new content, and the lines by which it differs from the old."""

    content: bytes
    matches: int
    blocks: list[DiffBlock[bytes]]

    @property
    def lines_changed(self) -> int:
        """Lines taken away or added, a line that was changed counted once."""
        return sum(max(block.end - block.start, len(block.new)) for block in self.blocks)

    @property
    def first_line(self) -> int:
        """The number of the first line that differs, counted from 1."""
        return self.blocks[0].start + 1


class _Change(msgspec.Struct, frozen=True, order=True):
    span: TextSpan
    new: bytes
    number: int


def edit(content: bytes, replacements: Sequence[Replacement], name: str) -> Edited:
    """Make all ``replacements``, each looked for in the original content of the file called ``name``.

    Raises ``ToolError`` if the file is UTF-16, if a replacement is not found, found more than once without
    ``all``, overlaps another, if there are more than ``MOST``, or if nothing would change.
    """
    if content.startswith(UTF16) and b"\0" in content:
        raise ToolError(
            f"{name} is UTF-16 text, and `edit` changes UTF-8 text only. Convert it, or change it with a program that "
            "keeps the encoding. Nothing was changed."
        )
    changes: list[_Change] = []
    for number, wanted in enumerate(replacements, 1):
        which = f"edit {number}: " if len(replacements) > 1 else ""
        changes += _changes(content, wanted, number, name, which)
        if len(changes) > MOST:
            raise ToolError(
                f"{which}old_string stands so often in {name} that more than {MOST:,} replacements would be made, "
                "the most that `edit` makes at once. Use sed with bash. Nothing was changed."
            )
    changes.sort()
    for one, other in pairwise(changes):
        if other.span.start < one.span.end:
            a, b = sorted((one.number, other.number))
            raise ToolError(
                f"Edits {a} and {b} overlap at line {_line(content, other.span.start)} of {name}. "
                "Make one edit of them. Nothing was changed."
            )
    new = _apply(content, changes)
    if new == content:
        raise ToolError(f"The edit would change nothing in {name}: it says already what it is to say.")
    return Edited(new, len(changes), list(_blocks(content, changes)))


def _changes(content: bytes, wanted: Replacement, number: int, name: str, which: str) -> list[_Change]:
    old, new = encoded(wanted.old, "old_string"), encoded(wanted.new, "new_string")
    if not old:
        raise ToolError(
            f"{which}old_string is empty, and {name} is not. Quote the text to replace, or use `write`."
        )
    if old == new:
        raise ToolError(f"{which}old_string and new_string are the same. Nothing was changed.")
    spans = find(content, old, overlapping=not wanted.all, at_most=1 + (MOST if wanted.all else LISTED))
    if not spans:
        raise ToolError(f"{which}old_string not found in {name}.{_nearest(content, wanted.old)}")
    if len(spans) > 1 and not wanted.all:
        lines = ", ".join(str(_line(content, span.start)) for span in spans[:LISTED])
        count, more = (f"{LISTED}+", " …") if len(spans) > LISTED else (str(len(spans)), "")
        raise ToolError(
            f"{which}old_string stands {count} times in {name}, at lines {lines}{more}. "
            "Quote more of the lines around the one you mean, or set replace_all. Nothing was changed."
        )
    return [_replaced(content, span, old, new, number) for span in spans]


def _replaced(content: bytes, span: TextSpan, old: bytes, new: bytes, number: int) -> _Change:
    """One replacement. A byte order mark stays where it is, whether it was quoted or not: ``read`` does not show it."""
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
    """The changes as whole lines: changes on lines that touch are compared together."""
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


def _nearest(content: bytes, wanted: str) -> str:
    """The lines of the file that come nearest to the text that is not there, with their numbers."""
    hint = " Read the file again and quote it exactly, white space included. Nothing was changed."
    first = next((line.strip() for line in wanted.split("\n") if line.strip()), "")
    if not first or len(content) > SEARCHED:
        return hint
    import difflib

    lines = content.decode(errors="replace").split("\n")
    near = difflib.get_close_matches(first[:500], dict.fromkeys(line.strip()[:500] for line in lines), n=1)
    if not near:
        return hint
    at = next(index for index, line in enumerate(lines) if line.strip()[:500] == near[0])
    shown = lines[at : at + min(10, wanted.strip().count("\n") + 1)]
    text = "\n".join(f"{at + index + 1:6}\t{line[:500].rstrip()}" for index, line in enumerate(shown))
    return f" The nearest there:\n{text}\n{hint.strip()}"
