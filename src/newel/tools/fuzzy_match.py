r"""Finds the text that a model quotes in a file's bytes, and replaces it.

Models normalize text: ``\n`` for ``\r\n``, no trailing whitespace, plain quotes for typographic ones. So a quotation is searched for
exactly, then with line ends normalized, then also without trailing whitespace, then also with look-alike characters
normalized; the first level with a match counts. Nothing looser is tried. All of it works on bytes, so that the rest of the file
stays unchanged, in any encoding, with any line ends.
"""

from __future__ import annotations

import bisect
import re
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from newel.diff.unified import DiffBlock, compare, split_lines

_LOOK_ALIKES: Final = {
    "'": "\u2018\u2019\u201a\u201b\u2032",
    '"': "\u201c\u201d\u201e\u201f\u2033",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
    " ": "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
}
_PLAIN: Final = {
    character.encode(): plain.encode()
    for plain, characters in _LOOK_ALIKES.items()
    for character in characters
}
_LINE_END: Final = rb"\r\n"
# The look-behind and the possessive `++` keep a megabyte of blanks from costing a megabyte squared.
_TRAILING: Final = rb"(?<![ \t])[ \t]++(?=\r?\n|\Z)"
_LOOK_ALIKE: Final = b"|".join(_PLAIN)

_LEVELS: Final = (
    _LINE_END,
    _TRAILING + b"|" + _LINE_END,
    _TRAILING + b"|" + _LINE_END + b"|" + _LOOK_ALIKE,
)
"""What each level normalizes."""


MAX_LINE_END_DISTANCE: Final = 65_536
"""Bytes around a match in which a line end is searched for: a long line can have a thousand matches, and searching all of the file
for each would take too long.
"""


class TextSpan(msgspec.Struct, frozen=True, order=True):
    """Bytes ``start:end`` of a file."""

    start: int
    end: int


def find(content: bytes, quoted: bytes, *, overlapping: bool, at_most: int) -> list[TextSpan]:
    """The first ``at_most`` matches of ``quoted`` (not empty) in ``content``, in order, at the first level with a match.
    ``overlapping`` includes matches that share bytes with the one before.
    """
    places = _places(content, quoted, overlapping=overlapping)
    if spans := [TextSpan(at, at + len(quoted)) for at in islice(places, at_most)]:
        return spans
    for level in _LEVELS:
        pattern = _NormalizedBytes(quoted, level).data
        if not pattern:
            continue
        plain = _NormalizedBytes(content, level)
        # Blanks at the end of the quotation mean that the line ends there.
        to_line_end = level != _LINE_END and quoted.endswith((b" ", b"\t"))
        places = _places(plain.data, pattern, overlapping=overlapping)
        if to_line_end:
            places = (
                at for at in places if plain.data[at + len(pattern) : at + len(pattern) + 1] in {b"", b"\n"}
            )
        if spans := [
            plain.span(at, at + len(pattern), with_blanks=to_line_end) for at in islice(places, at_most)
        ]:
            return spans
    return []


def replacement(content: bytes, span: TextSpan, quoted: bytes, new: bytes) -> bytes:
    """The bytes for ``span``, where ``quoted`` was found, so that it reads ``new``.

    Lines that ``quoted`` and ``new`` share stay as they are in the file, new lines get the line ends around them. Only if the
    quotation is exact and there is a carriage return in it or in ``new``, line ends are taken literally.
    """
    matched = content[span.start : span.end]
    if matched == quoted and b"\r\n" in quoted + new:
        return new
    was, quoted_lines, new_lines = split_lines(matched), split_lines(_unix(quoted)), split_lines(_unix(new))
    as_one = [DiffBlock(0, len(was), new_lines)]
    blocks = compare(quoted_lines, new_lines) if len(was) == len(quoted_lines) else as_one
    pieces: list[bytes] = []
    done = 0
    for block in blocks:
        pieces += was[done : block.start]
        for index, line in enumerate(block.new):
            model = was[max(0, min(block.start + index, block.end - 1))] if was else b""
            ends = line.endswith(b"\n")
            pieces.append(line[:-1] + (_line_end(model) or _line_end_near(content, span)) if ends else line)
        done = block.end
    return b"".join(pieces + was[done:])


def _places(data: bytes, pattern: bytes, *, overlapping: bool) -> Iterator[int]:
    step = 1 if overlapping else len(pattern)
    at = data.find(pattern)
    while at >= 0:
        yield at
        at = data.find(pattern, at + step)


class _NormalizedBytes:
    """Normalized bytes, with a map back to the original."""

    def __init__(self, data: bytes, level: bytes) -> None:
        # Arrays, as a large file can have millions of changes.
        text = bytearray()
        # The unchanged runs: where each begins here, where it begins in the original, and where the one before ends there.
        self._here, self._there, self._ends = array("q", [0]), array("q", [0]), array("q", [0])
        done = 0
        for change in re.finditer(level, data):
            start, end = change.span()
            text += data[done:start]
            text += _plain(change[0])
            done = end
            self._here.append(len(text))
            self._there.append(end)
            self._ends.append(start)
        text += data[done:]
        self.data = bytes(text)

    def span(self, start: int, end: int, *, with_blanks: bool) -> TextSpan:
        """The original bytes of ``start:end``, without blanks that were removed before them, and without those after them unless
        ``with_blanks``.
        """
        return TextSpan(self._after(start), self._after(end) if with_blanks else self._before(end))

    def _after(self, position: int) -> int:
        run = bisect.bisect_right(self._here, position) - 1
        return self._there[run] + position - self._here[run]

    def _before(self, position: int) -> int:
        run = bisect.bisect_left(self._here, position)
        reached = self._there[run - 1] + position - self._here[run - 1]
        if run < len(self._here) and self._here[run] == position and reached > self._ends[run]:
            return self._there[run]  # the last byte here was several in the original
        return reached


def _plain(changed: bytes) -> bytes:
    if changed == b"\r\n":
        return b"\n"
    return _PLAIN.get(changed, b"")


def _unix(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n")


def _line_end(line: bytes) -> bytes:
    if line.endswith(b"\r\n"):
        return b"\r\n"
    return b"\n" if line.endswith(b"\n") else b""


def _line_end_near(content: bytes, span: TextSpan) -> bytes:
    at = content.find(b"\n", span.end, span.end + MAX_LINE_END_DISTANCE)
    if at < 0:
        at = content.rfind(b"\n", max(0, span.start - MAX_LINE_END_DISTANCE), span.start)
    return b"\r\n" if at > 0 and content[at - 1 : at] == b"\r" else b"\n"
