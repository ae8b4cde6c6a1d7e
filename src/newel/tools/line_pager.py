"""Collects one page of a file's lines in one pass over its bytes; memory is bounded by the page."""

from __future__ import annotations

from typing import Final

LONGEST_LINE: Final = 2_000
"""Characters of a line that are shown; the rest is cut."""

_KEPT: Final = 4 * LONGEST_LINE + 4
"""Bytes of a line that are needed: at most four for each character, and one more character to tell whether it is cut."""


class Page:
    """The lines from number ``first`` on (counted from 1), as ``cat -n`` shows them: at most ``limit``, and as many as fit into
    ``room`` bytes, but at least one. Pass the whole file to ``add`` block by block, then call ``finish``.
    """

    def __init__(self, first: int, limit: int, room: int) -> None:
        self.first = first
        self.lines: list[str] = []
        self.total = 0
        """The number of lines in the file, once finished."""
        self.cut: list[int] = []
        """The numbers of lines that are cut."""
        self.full = False
        """Whether there was no room for another line."""
        self._limit = limit
        self._room = room
        self._line = 1
        self._begun = False
        self._kept = bytearray()
        self._size = 0

    @property
    def last(self) -> int:
        """The number of the last line on the page."""
        return self.first + len(self.lines) - 1

    @property
    def _complete(self) -> bool:
        return self.full or len(self.lines) == self._limit

    def add(self, block: bytes) -> None:
        if not block:
            return
        self._begun = not block.endswith(b"\n")
        line = self._line
        self._line += block.count(b"\n")
        if self._line < self.first or self._complete:
            return  # not on the page: only count its lines
        for index, piece in enumerate(block.split(b"\n")):
            if index:
                if line >= self.first:
                    self._show(line)
                line += 1
            if line >= self.first:
                if self._complete:
                    return
                self._size += len(piece)
                self._kept += piece[: _KEPT - len(self._kept)]

    def finish(self) -> None:
        """Add the last line if it has no line end."""
        self.total = self._line - 1 + self._begun
        if self._begun and self._line >= self.first and not self._complete:
            self._show(self._line)

    def _show(self, number: int) -> None:
        kept = bytes(self._kept)
        text = (kept.removesuffix(b"\r") if len(kept) == self._size else kept).decode(errors="replace")
        if len(text) > LONGEST_LINE:
            text = f"{text[:LONGEST_LINE]}… [cut: this line has {self._size:,} bytes]"
            self.cut.append(number)
        shown = f"{number:6}\t{text}"
        self._kept.clear()
        self._size = 0
        self._room -= len(shown.encode()) + 1
        if self._room < 0 and self.lines:
            self.full = True
            self.cut = [line for line in self.cut if line != number]
        else:
            self.lines.append(shown)
