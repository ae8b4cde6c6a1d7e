"""The pause in typing after which keys count as the answer to a question."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint
from prompt_toolkit.application import Application

from newel.terminal.ui.line_reader import QUIET_S

READ_ROUNDS = 8
"""Turns of the event loop, 1 KB each, in which a terminal's whole buffer (4 KB) is read."""


class TypingPause:
    """``is_asking`` tells whether something other than a message is on the screen."""

    def __init__(self, is_asking: Callable[[], bool]) -> None:
        self._is_asking = is_asking
        self._seen: float | None = None
        """When the question was shown, or a key was pressed since."""

    def watch(self, app: Application[None]) -> None:
        app.after_render += self._mark_seen
        app.key_processor.before_key_press += self._mark_key

    def begin(self) -> None:
        """A question is about to be shown."""
        self._seen = None

    async def wait(self) -> None:
        """Wait until the question was shown, and then no key was pressed for ``QUIET_S``."""
        remaining = QUIET_S
        while remaining > 0:
            await anyio.sleep(remaining)
            await read_keys()
            remaining = QUIET_S if self._seen is None else self._seen + QUIET_S - time.monotonic()

    def _mark_seen(self, _: object) -> None:
        if self._is_asking() and self._seen is None:
            self._seen = time.monotonic()

    def _mark_key(self, _: object) -> None:
        if self._seen is not None:
            self._seen = time.monotonic()


async def read_keys() -> None:
    """Let the keys act that have been typed by now."""
    for _ in range(READ_ROUNDS):
        await checkpoint()
