"""Notices that a host has fallen silent long before its connection counts as lost, while something is under way there."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import anyio
import anyio.abc

from newel.concurrency import task_group


class Heartbeat:
    """Calls ``look`` again and again, several times in ``slow`` seconds, as long as something is ``under_way``, and after that
    until it returns that all is well; it is given a group for what it has to wait for.
    """

    def __init__(self, slow: float, look: Callable[[anyio.abc.TaskGroup], bool]) -> None:
        self.slow = slow
        self._look = look
        self._count = 0
        self._begun = anyio.Event()

    @contextmanager
    def under_way(self) -> Generator[None]:
        self._count += 1
        self._begun.set()
        try:
            yield
        finally:
            self._count -= 1

    async def pay(self) -> None:
        """Until cancelled."""
        async with task_group() as tasks:
            while True:
                await self._begun.wait()
                is_well = False
                while self._count or not is_well:
                    await anyio.sleep(self.slow / 3)
                    is_well = self._look(tasks)
                self._begun = anyio.Event()
