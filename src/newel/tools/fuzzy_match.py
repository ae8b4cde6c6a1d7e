r"""Finds the text that a model quotes in a file's bytes, and puts another in its place.

Models quote what they were shown, not what is there: ``\n`` for ``\r\n``, no trailing white space, plain
quotes for typographic ones. So a quotation is looked for as it is, then with line ends made equal, then
without the lines' trailing white space, then with look-alike characters made equal; the first of these
that finds anything counts. Nothing looser is tried. All is done on bytes, so that what is not replaced
stays as it was: in any encoding, with any line ends.
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
"""What is made plain, from one attempt to the next."""


NEAR: Final = 65_536
"""How many bytes around a match are looked at for a line end. All of a file would be too many for each of
the thousand matches that one long line can have.
"""


class TextSpan(msgspec.Struct, frozen=True, order=True):
    """Bytes ``start:end`` of a file."""

    start: int
    end: int


def find(content: bytes, quoted: bytes, *, overlapping: bool, at_most: int) -> list[TextSpan]:
    """Where ``quoted`` (not empty) stands in ``content``, in order, by the first level that finds it: its
    first ``at_most`` places.

    ``overlapping`` also tells matches that share bytes with the one before.
    """
    places = _places(content, quoted, overlapping=overlapping)
    if spans := [TextSpan(at, at + len(quoted)) for at in islice(places, at_most)]:
        return spans
    for level in _LEVELS:
        wanted = _Plain(quoted, level).data
        if not wanted:
            continue
        plain = _Plain(content, level)
        # Blanks at the end of the quotation say that the line ends there.
        to_line_end = level != _LINE_END and quoted.endswith((b" ", b"\t"))
        places = _places(plain.data, wanted, overlapping=overlapping)
        if to_line_end:
            places = (
                at for at in places if plain.data[at + len(wanted) : at + len(wanted) + 1] in {b"", b"\n"}
            )
        if spans := [
            plain.span(at, at + len(wanted), with_blanks=to_line_end) for at in islice(places, at_most)
        ]:
            return spans
    return []


def replacement(content: bytes, span: TextSpan, quoted: bytes, new: bytes) -> bytes:
    """The bytes that belong in ``span``, where ``quoted`` was found, if it is to say ``new``.

    Lines that ``quoted`` and ``new`` share stay as the file has them, new lines get the line ends around
    them. Only a caller who quoted exactly and wrote a carriage return himself is taken literally.
    """
    found = content[span.start : span.end]
    if found == quoted and b"\r\n" in quoted + new:
        return new
    was, quoted_lines, wanted = split_lines(found), split_lines(_unix(quoted)), split_lines(_unix(new))
    as_one = [DiffBlock(0, len(was), wanted)]
    blocks = compare(quoted_lines, wanted) if len(was) == len(quoted_lines) else as_one
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


def _places(data: bytes, wanted: bytes, *, overlapping: bool) -> Iterator[int]:
    step = 1 if overlapping else len(wanted)
    at = data.find(wanted)
    while at >= 0:
        yield at
        at = data.find(wanted, at + step)


class _Plain:
    """Bytes made plain, with the way back."""

    def __init__(self, data: bytes, level: bytes) -> None:
        # A large file can have millions of changes: numbers and bytes one by one would take a gigabyte.
        made = bytearray()
        # The unchanged runs of bytes: where each begins here and there, and where the one before ends there.
        self._here, self._there, self._ends = array("q", [0]), array("q", [0]), array("q", [0])
        done = 0
        for change in re.finditer(level, data):
            start, end = change.span()
            made += data[done:start]
            made += _plain(change[0])
            done = end
            self._here.append(len(made))
            self._there.append(end)
            self._ends.append(start)
        made += data[done:]
        self.data = bytes(made)

    def span(self, start: int, end: int, *, with_blanks: bool) -> TextSpan:
        """The bytes there that became ``start:end`` here. Blanks that were taken away before them are not
        among them, nor the ones after them unless ``with_blanks``.
        """
        return TextSpan(self._after(start), self._after(end) if with_blanks else self._before(end))

    def _after(self, position: int) -> int:
        run = bisect.bisect_right(self._here, position) - 1
        return self._there[run] + position - self._here[run]

    def _before(self, position: int) -> int:
        run = bisect.bisect_left(self._here, position)
        reached = self._there[run - 1] + position - self._here[run - 1]
        if run < len(self._here) and self._here[run] == position and reached > self._ends[run]:
            return self._there[run]  # the last byte here stands for several there
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
    at = content.find(b"\n", span.end, span.end + NEAR)
    if at < 0:
        at = content.rfind(b"\n", max(0, span.start - NEAR), span.start)
    return b"\r\n" if at > 0 and content[at - 1 : at] == b"\r" else b"\n"
