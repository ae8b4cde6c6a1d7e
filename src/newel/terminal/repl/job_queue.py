"""Runs the user's requests one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from newel.agent.errors import NewelError
from newel.terminal.ui.terminal_ui import TerminalUI

Job = TypeVar("Job")


class JobQueue(Generic[Job]):
    """``run_job`` runs one job; ``after_job`` is called when it has ended, with whether it was stopped.

    The error of a job is shown, and the next one runs. Only the ``OSError`` of a screen that fails leaves ``work``.
    """

    def __init__(
        self,
        ui: TerminalUI,
        run_job: Callable[[Job], Awaitable[None]],
        after_job: Callable[[bool], Awaitable[None]],
    ) -> None:
        self.queued: deque[Job] = deque()
        self._ui = ui
        self._run_job = run_job
        self._after_job = after_job
        self._more = anyio.Event()
        self._idle = anyio.Event()
        self._scope: anyio.CancelScope | None = None

    @property
    def busy(self) -> bool:
        return self._scope is not None or bool(self.queued)

    def add(self, job: Job) -> None:
        self.queued.append(job)
        self._idle = anyio.Event()
        self._more.set()
        self._ui.refresh()

    def stop(self) -> bool:
        """Cancel the running job and drop the queued ones; False if none is running."""
        if self._scope is None:
            return False
        self.queued.clear()
        self._scope.cancel()
        return True

    async def wait_idle(self) -> None:
        """Returns when no job is running or queued."""
        while self.busy:
            await self._idle.wait()

    async def work(self) -> None:
        """Run jobs until cancelled."""
        while True:
            while self.queued:
                with anyio.CancelScope() as self._scope:
                    await self.run_safely(self._run_job, self.queued.popleft())
                stopped, self._scope = self._scope.cancelled_caught, None
                await self.run_safely(self._after_job, stopped)
                self._ui.refresh()
            self._idle.set()
            self._more = anyio.Event()
            await self._more.wait()

    async def run_safely(self, action: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Run ``action`` and show its error, if any."""
        try:
            await action(*arguments)
        except NewelError as error:
            self._ui.renderer.note(f"Error: {error}")
        except OSError:  # the screen itself
            raise
        except Exception as error:  # noqa: BLE001 — an error must not end the conversation
            self._ui.renderer.note(f"Error: {type(error).__name__}: {error}")
