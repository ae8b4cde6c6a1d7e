"""The visible part of a long text whose sections are painted when they are reached."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from anyio.lowlevel import checkpoint


class PagedSection(NamedTuple):
    """``paint`` returns the lines for a width in columns, which fit into it. ``may_have`` says whether it is worth painting the section to
    search it.
    """

    paint: Callable[[int], list[str]]
    may_have: Callable[[str], bool]


_COLOURS = r"\x1b\[[0-9;]*m"


class Scroller:
    """A window of ``rows`` lines on ``sections``, which an empty line separates."""

    def __init__(self, sections: Sequence[PagedSection], columns: int, rows: int) -> None:
        self._sections = sections
        self._painted: dict[int, list[str]] = {}
        self._columns = columns
        self._rows = rows
        self._section = self._line = 0

    @property
    def position(self) -> str:
        """``34 %``, ``end``, or an empty text if all is visible."""
        last = self._last_top()
        if (self._section, self._line) >= last:
            return "end" if last > (0, 0) else ""
        part = self._line / max(len(self._lines(self._section)), 1)
        return f"{(self._section + part) / len(self._sections):.0%}".replace("%", " %")

    def resize(self, columns: int, rows: int) -> None:
        was_at_end = (self._section, self._line) >= self._last_top()
        is_repainted = columns != self._columns
        self._columns = columns
        self._rows = rows
        if is_repainted:
            self._painted.clear()
            self._line = 0
        if was_at_end:
            self.to_end()

    def visible(self) -> list[str]:
        section, line = self._section, self._line
        lines: list[str] = []
        while section < len(self._sections) and len(lines) < self._rows:
            lines += self._lines(section)[line : line + self._rows - len(lines)]
            section, line = section + 1, 0
        return lines

    def move(self, lines: int) -> None:
        """Scroll down, or up if ``lines`` is negative, as far as there is text."""
        section, line = self._section, self._line + lines
        while line < 0 and section > 0:
            section -= 1
            line += len(self._lines(section))
        while section + 1 < len(self._sections) and line >= len(self._lines(section)):
            line -= len(self._lines(section))
            section += 1
        self._section, self._line = min((section, max(line, 0)), self._last_top())

    def turn(self, pages: float) -> None:
        """Scroll by a part of the window; two lines of the page before stay visible."""
        self.move(int(pages * max(self._rows - 2, 1)))

    def to_start(self) -> None:
        self._section = self._line = 0

    def to_end(self) -> None:
        self._section, self._line = self._last_top()

    async def find(self, query: str, step: int) -> bool:
        """Scroll to the next line with the text, or with a negative ``step`` to the one before; False if there is none. Other tasks run
        meanwhile: a whole transcript may have to be painted. Capitals count if the query has any.
        """
        section = self._section
        line: int | None = self._line + step
        while 0 <= section < len(self._sections):
            if self._sections[section].may_have(query):
                lines = self._lines(section)
                line = line if line is not None else 0 if step > 0 else len(lines) - 1
                while 0 <= line < len(lines):
                    if matches(query, lines[line]):
                        self._section, self._line = section, line
                        return True
                    line += step
            section, line = section + step, None
            await checkpoint()
        return False

    def _last_top(self) -> tuple[int, int]:
        """The position from which the rest fills the window."""
        section, missing = len(self._sections), self._rows
        while section > 0 and missing > 0:
            section -= 1
            missing -= len(self._lines(section))
        return section, max(-missing, 0)

    def _lines(self, section: int) -> list[str]:
        if section not in self._painted:
            lines = self._sections[section].paint(self._columns)
            self._painted[section] = ["", *lines] if section else lines
        return self._painted[section]


def matches(query: str, line: str) -> list[tuple[int, int]]:
    """Where the text is in a painted line, without its colours."""
    flags = 0 if query != query.lower() else re.IGNORECASE
    return (
        [found.span() for found in re.finditer(re.escape(query), re.sub(_COLOURS, "", line), flags)]
        if query
        else []
    )
