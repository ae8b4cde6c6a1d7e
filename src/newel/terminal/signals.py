"""What the outside asks for: Ctrl+C, a polite kill, a terminal that was closed."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from anyio.abc import TaskGroup

from newel.concurrency import background_tasks
from newel.workspace.process.signals import receiver

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@asynccontextmanager
async def on_signals(handler: Callable[[signal.Signals], None]) -> AsyncGenerator[TaskGroup]:
    """Call ``handler`` in the event loop for each of ``STOP`` that arrives inside.

    Gives a task group whose tasks end with the block. Of errors the first leaves, as itself. Raises ``NewelError`` if the
    system does not let this process handle signals.
    """

    async def pass_on() -> None:
        async for number in arriving:
            handler(number)

    with receiver(STOP) as arriving:
        async with background_tasks(pass_on) as group:
            yield group


def die_of(number: signal.Signals) -> None:
    """End this process at once, in the way a shell knows."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def exit_code(number: signal.Signals) -> int:
    """128 + N, as shells count."""
    return 128 + number
