"""What a screen is: something that is told each event, in order."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from typing import Protocol, TextIO

import anyio

from newel.agent.events import AgentEvent

TICK = 0.1
"""Seconds between two ticks of an animated renderer."""


class Renderer(Protocol):
    """Shows events. It knows nothing but them: not the agent, not the session."""

    animated: bool
    """Whether it wants ``tick`` to be called while a prompt is answered."""

    def handle(self, event: AgentEvent, /) -> None:
        """Show one event. Raises ``OSError`` if nobody reads any more."""
        ...

    def note(self, text: str, /) -> None:
        """Show words of the program itself, which may hold text from elsewhere: it is made inert."""
        ...

    def tick(self) -> None:
        """Time has passed: about every ``TICK`` seconds."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Inside, the terminal may be used for a question."""
        ...

    def close(self) -> None:
        """Leave the screen as a later program expects it. May be called twice."""
        ...


async def animate(renderer: Renderer) -> None:
    """Tick until cancelled; returns at once for a renderer that stands still."""
    while renderer.animated:
        await anyio.sleep(TICK)
        renderer.tick()


def text_stdout() -> TextIO:
    """Standard output, which writes a ``?`` for what its encoding lacks instead of ending the run."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    return sys.stdout


def forget_stdout() -> None:
    """Nobody reads standard output any more: let what is still buffered go nowhere, without a word."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
