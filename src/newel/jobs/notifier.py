"""Wakes what waits for a change in this process, and repeats queries at each change."""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

import anyio

NO_EVENT = sys.maxsize
"""Above the number of any event: a listener after it is notified of changes of the job's state only."""
ALWAYS = math.inf
"""Above all numbers: notifies every listener."""
QUEUES, CANCELLED = "queues", "cancelled"
"""The topics of jobs that may have become runnable, and of cancellations; other topics are job ids."""

T = TypeVar("T")


class Notifier:
    """Wakes listeners of a topic in this process. A notification without a listener is dropped."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[anyio.Event, int]] = {}

    @contextmanager
    def listen(self, topic: str, after: int = 0) -> Generator[anyio.Event]:
        """An event that the next number above ``after`` sets. Listen first and check then, so that none is missed."""
        event = anyio.Event()
        listeners = self._listeners.setdefault(topic, {})
        listeners[event] = after
        try:
            yield event
        finally:
            del listeners[event]
            if not listeners:
                self._listeners.pop(topic, None)

    async def poll(
        self,
        attempt: Callable[[], Awaitable[tuple[T, bool, float | None]]],
        wait: float,
        topic: str,
        after: int = 0,
    ) -> T:
        """Repeat ``attempt`` at each change of a topic, for up to ``wait`` seconds. It returns a result, whether that is final,
        and after how many seconds another one may be due without a change.
        """
        deadline = anyio.current_time() + wait
        while True:
            with self.listen(topic, after) as changed:
                result, is_final, due = await attempt()
                remaining = deadline - anyio.current_time()
                if is_final or remaining <= 0:
                    return result
                with anyio.move_on_after(remaining if due is None else min(remaining, max(due, 0.0))):
                    await changed.wait()

    def notify(self, topic: str, number: float = ALWAYS) -> None:
        for event, after in self._listeners.get(topic, {}).items():
            if number > after:
                event.set()

    def notify_all(self) -> None:
        for topic in self._listeners:
            self.notify(topic)
