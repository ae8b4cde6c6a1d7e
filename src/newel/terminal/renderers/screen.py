"""The bottom of a terminal's screen: finished text scrolls up, and the live part below is redrawn."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, TextIO

# Synchronized output: the terminal shows what is in between at once; others ignore it.
BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"


class Screen(Protocol):
    """Where a renderer draws. Both texts are inert but for the renderer's own colours."""

    def size(self) -> tuple[int, int]:
        """Columns and rows, now."""
        ...

    def draw(self, above: str, live: Sequence[str]) -> None:
        """Print ``above`` (whole lines, or nothing) for good, and replace the live part below it by ``live``."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Inside, nothing is live and the terminal can be used for a question. What is to be printed waits for its end."""
        ...


class LiveScreen:
    """A screen on a terminal that nothing else writes to."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self._shown: list[str] = []
        self._live: list[str] = []
        self._paused = False
        self._held = ""

    def size(self) -> tuple[int, int]:
        return terminal_size(self.out)

    def draw(self, above: str, live: Sequence[str]) -> None:
        self._live = list(live)
        if self._paused:
            self._held += above
        elif above or self._live != self._shown:
            self.out.write(self._erase() + above + self._below(self._live))
            self.out.flush()
            self._shown = self._live

    @contextmanager
    def paused(self) -> Generator[None]:
        live = self._live
        self.draw("", [])
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
            held, self._held = self._held, ""
            self.draw(held, self._live or live)

    def _erase(self) -> str:
        up = f"\x1b[{len(self._shown) - 1}A" if len(self._shown) > 1 else ""
        return BEGIN_UPDATE + (f"\r{up}\x1b[J" if self._shown else "")

    def _below(self, live: list[str]) -> str:
        # The terminal may measure a line wider than we do. Without wrapping it still takes one row.
        return (_NO_WRAP + "\n".join(live) + _WRAP if live else "") + END_UPDATE


class Printer:
    """A screen that only prints: for pipes, files and terminals that cannot move their cursor."""

    def __init__(self, out: TextIO) -> None:
        self.out = out

    def size(self) -> tuple[int, int]:
        return terminal_size(self.out)

    def draw(self, above: str, live: Sequence[str]) -> None:  # noqa: ARG002 — nothing is live here
        self.out.write(above)
        self.out.flush()

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext()


def terminal_size(out: TextIO) -> tuple[int, int]:
    """Columns and rows of the terminal ``out``; 80 and 24 if it is no terminal or does not report them."""
    try:
        columns, rows = os.get_terminal_size(out.fileno())
    except OSError:
        columns, rows = 0, 0
    return columns or 80, rows or 24
