"""Asks the user for one line while a run is shown on the same terminal."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Protocol, TextIO

import anyio

from newel.terminal.renderers.base import Renderer
from newel.terminal.ui.line_reader import LineReader
from newel.text.format import one_line
from newel.text.sanitize import escape_invisible

QUIET_S: Final = 0.7
"""Pause without a key after an interrupting question, before a key counts as its answer."""

BEGIN_PASTES, END_PASTES = "\x1b[?2004h", "\x1b[?2004l"
"""In between, the terminal marks pasted text."""


class AskLine(Protocol):
    async def __call__(self, question: str, about: str, *, interrupting: bool = False) -> str | None:
        """Show ``about`` and ask; both texts are shown with hidden characters written out. Returns the line that the user
        entered, None if nobody can answer. ``interrupting``: the user did not expect the question and may be typing
        something else, so input before a pause of ``QUIET_S`` is no answer. May be cancelled. One question at a time.
        """
        ...


async def until_quiet(lines: LineReader) -> str:
    """Wait until the user has typed nothing for ``QUIET_S``. What they typed until then is dropped; returns a note about it, or
    an empty text.
    """
    typed = (await lines.until_quiet(QUIET_S)).strip()
    return f"Typed before the question, and not sent: {one_line(typed)}" if typed else ""


class TerminalAsk:
    """An ``AskLine`` on a terminal, where ``renderer`` shows the run and ``lines`` reads the input."""

    def __init__(self, renderer: Renderer, lines: LineReader, out: TextIO) -> None:
        self._renderer = renderer
        self._lines = lines
        self._out = out

    async def __call__(self, question: str, about: str, *, interrupting: bool = False) -> str | None:
        question = escape_invisible(question)
        with self._renderer.paused(), self._pastes_marked():
            if not interrupting:
                self._lines.forget_typed()  # typed before the question, so no answer to it
            self._write(f"\n{escape_invisible(about)}\n{question}" if about else question)
            try:
                if interrupting and (unsent := await until_quiet(self._lines)):
                    self._write(f"\n{unsent}\n{question}")
                line = await self._lines.next()
            except anyio.get_cancelled_exc_class():
                self._write("\n")  # later output starts on a new line
                raise
            if line is None:
                self._write("\n")
            return line

    @contextmanager
    def _pastes_marked(self) -> Generator[None]:
        if not self._renderer.animated:  # the terminal may not support escape sequences
            yield
            return
        self._write(BEGIN_PASTES)
        try:
            yield
        finally:
            self._write(END_PASTES)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
