"""Panels with frames and colours, drawn by rich."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from rich.cells import cell_len
from rich.console import RenderableType
from rich.panel import Panel
from rich.text import Text

from newel.terminal.jexida.renderer import PanelStyle, Tone
from newel.terminal.renderers.palette import MAX_WIDTH, wrap
from newel.terminal.renderers.styles import Styles

BORDER: Final = "frame"
TITLE: Final = "frame.title"
STYLES: Final[dict[Tone, str]] = {
    "plain": "",
    "strong": "user",
    "dim": "dim",
    "good": "success",
    "bad": "error",
    "warn": "warning",
}
LONG: Final = 1_000
"""Characters from which a line is broken anywhere: breaking between words takes quadratic time."""

FRAME: Final = 4
"""Columns that a panel takes from its text."""


class RichPanels(PanelStyle):
    """Framed panels: dim borders, bright titles, text in the terminal's own colours."""

    def __init__(self, painter: Styles) -> None:
        self._painter = painter

    def top(self, title: str, width: int) -> list[str]:
        return self._panel("", width, title=title)[:1]

    def lines(self, text: str, width: int, tone: Tone = "plain") -> list[str]:
        room = self._room(width)
        left, right = self._sides
        done: list[str] = []
        for line in text.split("\n"):
            for part in map(str.rstrip, _wrap(line.expandtabs(8), room)):
                painted = self._style(part, room, tone) if STYLES[tone] else part
                done.append(left + painted + " " * (room - cell_len(part)) + right)
        return done

    def prose(self, markdown: str, width: int) -> list[str]:
        lines = self._panel(self._painter.prose(markdown), width)[1:-1]
        filled = [at for at, line in enumerate(lines) if Text.from_ansi(line).plain.strip("│ ")]
        return lines[filled[0] : filled[-1] + 1] if filled else []  # blocks come with empty lines around them

    def bottom(self, note: str, width: int, tone: Tone = "dim") -> list[str]:
        return self._panel(
            "", width, note=Text.assemble((note, STYLES[tone]), style="not dim") if note else None
        )[-1:]

    def bare(self, text: str, width: int, tone: Tone = "plain") -> list[str]:
        return self._painter.paint(Text(text, style=STYLES[tone]), min(width, MAX_WIDTH)).split("\n")

    def _style(self, text: str, width: int, tone: Tone) -> str:
        return self._painter.paint(Text(text, style=STYLES[tone], no_wrap=True), width)

    def _room(self, width: int) -> int:
        return max(min(width, MAX_WIDTH) - FRAME, 4)

    @cached_property
    def _sides(self) -> tuple[str, str]:
        """The borders beside a line of text."""
        bar = self._painter.paint(Text("│", style=BORDER), 8)
        return f"{bar} ", f" {bar}"

    def _panel(
        self, content: RenderableType, width: int, *, title: str = "", note: Text | None = None
    ) -> list[str]:
        width = self._room(width) + FRAME
        panel = Panel(
            content,
            title=Text(title, style=TITLE) if title else None,
            title_align="left",
            subtitle=note,
            subtitle_align="right",
            border_style=BORDER,
            width=width,
        )
        return self._painter.paint(panel, width).split("\n")


def _wrap(line: str, width: int) -> list[str]:
    """Break a line into lines of at most ``width`` columns."""
    if len(line) <= LONG:
        return wrap(line, width)
    parts: list[str] = []
    begin = columns = 0
    for at, char in enumerate(line):
        columns += cell_len(char)
        if columns > width:
            parts.append(line[begin:at])
            begin, columns = at, cell_len(char)
    return [*parts, line[begin:]]
