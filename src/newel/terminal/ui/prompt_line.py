"""Asking a person for one line, while a run is shown on the same terminal."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Protocol, TextIO

import anyio

from newel.terminal.renderers.base import Renderer
from newel.terminal.ui.line_reader import LineReader
from newel.text.format import one_line
from newel.text.sanitize import escape_invisible

QUIET: Final = 0.7
"""Seconds without a key, after an interrupting question was shown, before a key can be part of its answer."""

BEGIN_PASTES, END_PASTES = "\x1b[?2004h", "\x1b[?2004l"
"""In between a terminal marks what is pasted."""


class AskLine(Protocol):
    async def __call__(self, question: str, about: str, *, interrupting: bool = False) -> str | None:
        """Show what a question is about, if there is anything to be said, and put it; both texts are shown with whatever
        they hide written out. Gives the line that was typed then, None if there is nobody to answer. ``interrupting``: the
        person did not expect the question and may be typing something else, so what they type before they have paused for
        ``QUIET`` is no answer. May be cancelled. One question at a time.
        """
        ...


async def until_quiet(lines: LineReader) -> str:
    """Wait until the person at a terminal has typed nothing for ``QUIET``. Returns what they typed until then, which nobody else
    will read: words for it, or nothing.
    """
    typed = (await lines.until_quiet(QUIET)).strip()
    return f"Typed before the question, and not sent: {one_line(typed)}" if typed else ""


class TerminalAsk:
    """An ``AskLine`` on a terminal, where ``renderer`` shows the run and ``lines`` are what is typed."""

    def __init__(self, renderer: Renderer, lines: LineReader, out: TextIO) -> None:
        self._renderer = renderer
        self._lines = lines
        self._out = out

    async def __call__(self, question: str, about: str, *, interrupting: bool = False) -> str | None:
        question = escape_invisible(question)
        with self._renderer.paused(), self._pastes_marked():
            if not interrupting:
                self._lines.forget_typed()  # a yes from before the question is no answer to it
            self._write(f"\n{escape_invisible(about)}\n{question}" if about else question)
            try:
                if interrupting and (unsent := await until_quiet(self._lines)):
                    self._write(f"\n{unsent}\n{question}")
                line = await self._lines.next()
            except anyio.get_cancelled_exc_class():
                self._write("\n")  # what comes next is no part of the question
                raise
            if line is None:
                self._write("\n")
            return line

    @contextmanager
    def _pastes_marked(self) -> Generator[None]:
        if not self._renderer.animated:  # it may know no escape sequences
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
