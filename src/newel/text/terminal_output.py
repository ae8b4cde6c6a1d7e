"""What a program writes to a terminal, as the text that stays on it: without colours, moves of the cursor, lines that were written over,
and what was shown on the other screen, as editors and pagers use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from newel.text.sanitize import SanitizedStream

_SWITCH: Final = re.compile(r"\x1b\[\?([\d;]{1,40})([hl])")
_OPEN: Final = re.compile(r"\x1b(?:\[(?:\?[\d;]{0,40})?)?\Z")

OTHER_SCREEN: Final = frozenset({"47", "1047", "1049"})
"""The modes of a terminal in which its other screen is shown, without scroll-back."""

MAX_LINE: Final = 16_384
"""Characters of a line that are held until its end: a progress bar may write over it again and again."""


class ModeSwitch(NamedTuple):
    """A switch of modes in a text, from ``start`` to ``end``."""

    modes: list[str]
    is_on: bool
    start: int
    end: int


def find_switches(text: str) -> Iterator[ModeSwitch]:
    """The switches of a terminal's private modes."""
    for match in _SWITCH.finditer(text):
        yield ModeSwitch(match[1].split(";"), match[2] == "h", match.start(), match.end())


def split_open(text: str) -> tuple[str, str]:
    """A piece of output without the beginning of a switch at its end, and that beginning."""
    match = _OPEN.search(text, max(len(text) - 48, 0))
    return (text[: match.start()], match[0]) if match else (text, "")


class TerminalText:
    """``feed`` and ``finish`` return the text that stays, line by line."""

    def __init__(self) -> None:
        self._stream = SanitizedStream()
        self._held = self._line = ""
        self._is_away = False

    def feed(self, piece: str) -> str:
        text, self._held = split_open(self._held + piece)
        return self._add(self._on_main_screen(text))

    def finish(self) -> str:
        text = self._add(self._on_main_screen(self._held))
        line, self._line = _last_written(self._line), ""
        return text + self._stream.feed(line) + self._stream.finish()

    def _on_main_screen(self, text: str) -> str:
        shown: list[str] = []
        start = 0
        for switch in find_switches(text):
            if not OTHER_SCREEN.isdisjoint(switch.modes):
                shown += [] if self._is_away else [text[start : switch.start]]
                self._is_away, start = switch.is_on, switch.end
        return "".join(shown if self._is_away else [*shown, text[start:]])

    def _add(self, text: str) -> str:
        *whole, self._line = (self._line + text).split("\n")
        if len(self._line) > MAX_LINE:
            self._line = _last_written(self._line)
        lines = [f"{_last_written(line)}\n" for line in whole]
        if len(self._line) > MAX_LINE:
            lines.append(self._line)
            self._line = ""
        return self._stream.feed("".join(lines))


def _last_written(line: str) -> str:
    """A line without what was written over."""
    line = line.rstrip("\r").rpartition("\r")[2]
    if "\b" not in line:
        return line
    kept: list[str] = []
    for char in line:
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept)
