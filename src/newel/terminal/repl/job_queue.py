"""What a person at a desk asked for, done one thing after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from newel.agent.errors import NewelError
from newel.terminal.ui.terminal_ui import TerminalUI

Job = TypeVar("Job")


class JobQueue(Generic[Job]):
    """``take`` does one job; ``stop`` cancels the one that is under way and drops those that wait. ``after`` is called
    when a job is over, with whether it was stopped.

    Whatever a job fails with is told, and the work goes on; but not where the screen itself fails: that raises
    ``OSError`` out of ``work``.
    """

    def __init__(
        self,
        desk: TerminalUI,
        take: Callable[[Job], Awaitable[None]],
        after: Callable[[bool], Awaitable[None]],
    ) -> None:
        self.waiting: deque[Job] = deque()
        self._desk = desk
        self._take = take
        self._after = after
        self._more = anyio.Event()
        self._idle = anyio.Event()
        self._scope: anyio.CancelScope | None = None

    @property
    def busy(self) -> bool:
        return self._scope is not None or bool(self.waiting)

    def add(self, job: Job) -> None:
        self.waiting.append(job)
        self._idle = anyio.Event()
        self._more.set()
        self._desk.refresh()

    def stop(self) -> bool:
        """False if nothing is under way."""
        if self._scope is None:
            return False
        self.waiting.clear()
        self._scope.cancel()
        return True

    async def idle(self) -> None:
        """Returns when nothing runs and nothing waits."""
        while self.busy:
            await self._idle.wait()

    async def work(self) -> None:
        """Do what is asked for, until cancelled."""
        while True:
            while self.waiting:
                with anyio.CancelScope() as self._scope:
                    await self.guarded(self._take, self.waiting.popleft())
                stopped, self._scope = self._scope.cancelled_caught, None
                await self.guarded(self._after, stopped)
                self._desk.refresh()
            self._idle.set()
            self._more = anyio.Event()
            await self._more.wait()

    async def guarded(self, action: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Do something, and tell what it fails with."""
        try:
            await action(*arguments)
        except NewelError as error:
            self._desk.renderer.note(f"Error: {error}")
        except OSError:  # the screen itself
            raise
        except Exception as error:  # noqa: BLE001 — what fails must not end the conversation
            self._desk.renderer.note(f"Error: {type(error).__name__}: {error}")
