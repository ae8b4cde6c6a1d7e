"""Asking a person for one line, while a run is shown on the same terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TextIO

import anyio

from newel.terminal.lines import LineReader
from newel.terminal.renderer import Renderer
from newel.terminal.safe import reveal

AskLine = Callable[[str, str], Awaitable[str | None]]
"""Shows what a question is about, if there is anything to be said, with whatever it hides written out, and puts it. Gives
the line that was typed then, None if there is nobody to answer. May be cancelled. One question at a time.
"""


class TerminalAsk:
    """An ``AskLine`` on a terminal, where ``renderer`` shows the run and ``lines`` are what is typed."""

    def __init__(self, renderer: Renderer, lines: LineReader, out: TextIO) -> None:
        self._renderer = renderer
        self._lines = lines
        self._out = out

    async def __call__(self, question: str, about: str) -> str | None:
        with self._renderer.paused():
            self._lines.forget_typed()  # a yes from before the question is no answer to it
            self._write(f"\n{reveal(about)}\n{reveal(question)}" if about else reveal(question))
            try:
                line = await self._lines.next()
            except anyio.get_cancelled_exc_class():
                self._write("\n")  # what comes next is no part of the question
                raise
            if line is None:
                self._write("\n")
            return line

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
