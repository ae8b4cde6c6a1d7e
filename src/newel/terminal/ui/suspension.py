"""The time in which another program, or a pager, has the terminal."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
from prompt_toolkit.application import in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.input.typeahead import get_typeahead

from newel.terminal.ui.attention import Attention
from newel.terminal.ui.keyboard import ESCAPE_S, begin_keys, early_keys, end_keys
from newel.terminal.ui.terminal_app import TerminalApp


class Suspension:
    """Lends the terminal of ``app`` to one program at a time. Meanwhile output is held back. ``write`` sends control sequences to the
    terminal.
    """

    def __init__(self, app: TerminalApp, attention: Attention, write: Callable[[str], None]) -> None:
        self._app = app
        self._attention = attention
        self._write = write
        self._lock = anyio.Lock()
        self._held: list[str] | None = None

    @property
    def is_active(self) -> bool:
        return self._held is not None

    def hold(self, text: str) -> None:
        """Keep what is to be printed until the terminal is back."""
        if self._held is not None:
            self._held.append(text)

    @asynccontextmanager
    async def begin(self, print_held: Callable[[str], None]) -> AsyncGenerator[None]:
        """Inside, the terminal is another program's. Afterwards ``print_held`` gets the output that was held back."""
        async with self._lock:
            self._held = []
            try:
                with set_app(self._app):
                    async with in_terminal():
                        self._write(end_keys())
                        self._attention.pause()
                        # The end of the last key's wait would take an Escape from whoever reads the keys next.
                        await anyio.sleep(2 * ESCAPE_S)
                        try:
                            yield
                        finally:
                            self._attention.resume()
                            self._write(begin_keys())
                    self._take_early_keys()
            finally:
                held, self._held = "".join(self._held), None
                print_held(held)

    def _take_early_keys(self) -> None:
        """What was typed after the key that closed a pager, or before the terminal was ours again, is for the prompt."""
        source, processor = self._app.input, self._app.key_processor
        processor.feed_multiple(get_typeahead(source) + early_keys(source))
        processor.process_keys()
