"""Signals that stop a conversation: Ctrl+C, SIGTERM, a closed terminal."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

from anyio.abc import TaskGroup

from newel.concurrency import background_tasks
from newel.workspace.process.signals import receiver

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_arrived: Final[list[signal.Signals]] = []


def arrived() -> signal.Signals | None:
    """The first signal inside ``on_signals``, also one that the event loop has not handled yet, because a write keeps it."""
    return _arrived[0] if _arrived else None


def _note(number: int, _: object) -> None:
    if not _arrived:
        _arrived.append(signal.Signals(number))


@asynccontextmanager
async def on_signals(handler: Callable[[signal.Signals], None]) -> AsyncGenerator[TaskGroup]:
    """Call ``handler`` in the event loop for each of ``STOP`` that arrives inside.

    Yields a task group whose tasks end with the block. Raises the first error of the group itself, not an exception group. Raises
    ``NewelError`` if the system does not let this process handle signals.
    """

    async def pass_on() -> None:
        async for number in arriving:
            handler(number)

    with receiver(STOP) as arriving:
        _arrived.clear()
        for number in STOP:
            if signal.getsignal(number) is not signal.SIG_IGN:
                # The event loop learns of a signal by a descriptor of its own, whichever handler the signal has.
                signal.signal(number, _note)
                signal.siginterrupt(number, False)  # as asyncio has it
        async with background_tasks(pass_on) as group:
            yield group


def die_of(number: signal.Signals) -> None:
    """End this process at once by the signal itself, so that the shell sees it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def exit_code(number: signal.Signals) -> int:
    """128 + N, as shells count."""
    return 128 + number


def code_without_reader() -> int:
    """The exit code of a program whose output nobody reads: that of the signal that ended it, or else 1."""
    number = arrived()
    return exit_code(number) if number else 1
