"""Signals that this process handles."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import ExitStack, contextmanager

import anyio

from newel.agent.errors import WorkspaceError


@contextmanager
def receiver(numbers: Iterable[signal.Signals]) -> Generator[AsyncIterator[signal.Signals]]:
    """Iterates over the signals of ``numbers`` that arrive inside; not SIGHUP if it is ignored: ``nohup`` is for outliving the terminal.
    Raises ``WorkspaceError`` if the system does not let this process handle them.
    """
    heard = [
        each for each in numbers if each != signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN
    ]
    with ExitStack() as stack:
        try:
            arriving = stack.enter_context(anyio.open_signal_receiver(*heard))
        except (OSError, RuntimeError) as error:  # asyncio makes the one of the other
            raise WorkspaceError(
                f"Newel cannot handle signals such as Ctrl+C on this system: {error}. Nothing was started; try again."
            ) from error
        yield arriving
