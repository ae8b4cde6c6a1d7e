"""What a person types before the prompt is there."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Generator
from types import FrameType


def can_draw() -> bool:
    """Whether a person sits at a terminal that can have a prompt at its bottom."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


@contextlib.contextmanager
def unechoed() -> Generator[None]:
    """Inside, the terminal echoes nothing: what is typed waits for the prompt instead of standing above it. Nothing changes
    where there is no terminal.
    """
    import termios

    fd = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(fd)
    except termios.error:
        yield
        return

    def restore() -> None:
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(fd, termios.TCSADRAIN, before)

    def end(number: int, _: FrameType | None) -> None:
        from newel.terminal.signals import die_of

        restore()
        die_of(signal.Signals(number))

    silent = termios.tcgetattr(fd)
    silent[3] &= ~termios.ECHO
    usual = signal.signal(signal.SIGTERM, end)
    try:
        termios.tcsetattr(fd, termios.TCSANOW, silent)
        yield
    finally:
        restore()
        signal.signal(signal.SIGTERM, usual)
