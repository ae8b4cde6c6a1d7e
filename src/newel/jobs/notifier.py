"""Waking those who wait, in this process, at once and by name."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager

import anyio

ALWAYS = math.inf
"""Rings for everybody who listens, whatever they wait for."""


class Notifier:
    """Named bells. Who listens to one waits for a number above ``after``; nothing is kept of what nobody hears."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[anyio.Event, int]] = {}

    @contextmanager
    def listen(self, name: str, after: int = 0) -> Generator[anyio.Event]:
        """An event that is set as soon as the bell rings. Listen first and look then, so that nothing is missed."""
        event = anyio.Event()
        listeners = self._listeners.setdefault(name, {})
        listeners[event] = after
        try:
            yield event
        finally:
            del listeners[event]
            if not listeners:
                self._listeners.pop(name, None)

    def ring(self, name: str, number: float = ALWAYS) -> None:
        for event, after in self._listeners.get(name, {}).items():
            if number > after:
                event.set()

    def ring_all(self) -> None:
        for name in self._listeners:
            self.ring(name)
