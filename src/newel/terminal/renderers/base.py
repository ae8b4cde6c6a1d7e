"""What a screen is: something that is told each event, in order."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Protocol, TextIO

import anyio

from newel.agent.errors import NewelError
from newel.agent.events import AgentEvent

if TYPE_CHECKING:
    from newel.session.coding_agent import CodingAgent

TICK = 0.1
"""Seconds between two ticks of an animated renderer."""


class Renderer(Protocol):
    """Shows events. It knows nothing but them: not the agent, not the session."""

    animated: bool
    """Whether it wants ``tick`` to be called while a prompt is answered."""

    def handle(self, event: AgentEvent, /) -> None:
        """Show one event. Raises ``OSError`` if nobody reads any more."""
        ...

    def note(self, text: str, code: str = "note", /) -> None:
        """Show words of the program itself, which may hold text from elsewhere: it is made inert. ``code``
        tells a program what they are about; ``diff`` are words with unified diffs among them, and the lines of
        ``whole`` are never broken, so that they can be copied.
        """
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


class DisplayFailed(NewelError):
    """A renderer has a defect."""


class RendererSubscription:
    """Those who watch an agent on a renderer, until they are gone.

    What a subscriber raises ends a run in the middle of things: results of tools would be lost. So when the
    screen fails, ``stop`` is called to end the run in good order, nothing more is shown, and ``check``
    raises afterwards what the screen had raised.
    """

    def __init__(self, renderer: Renderer, stop: Callable[[], object]) -> None:
        self._renderer = renderer
        self._stop = stop
        self._failed: Exception | None = None

    def see(self, event: AgentEvent) -> None:
        if self._failed is None:
            try:
                self._renderer.handle(event)
            except Exception as error:  # noqa: BLE001 — raised by check, when the run has ended
                self._failed = error
                self._stop()

    def check(self) -> None:
        """Raises ``OSError`` if they are gone, ``DisplayFailed`` if the renderer failed in another way."""
        match self._failed:
            case None:
                pass
            case OSError() as gone:
                raise gone
            case error:
                raise DisplayFailed(
                    f"The display failed, so the run was stopped: {type(error).__name__}: {error}. This is a defect in Newel. "
                    "What was said is kept: `newel --continue` resumes it."
                ) from error


def tell_damage(agent: CodingAgent, renderer: Renderer) -> None:
    """Say what was found broken in the file of the agent's session."""
    for finding in agent.session.damage:
        renderer.note(f"The session's file is damaged: {finding}", "session_damage")


async def animate(renderer: Renderer) -> None:
    """Tick until cancelled; returns at once for a renderer that stands still."""
    while renderer.animated:
        await anyio.sleep(TICK)
        renderer.tick()


class TextSink(Protocol):
    """What text can be written to."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...


class Aside:
    """A sink for what nobody has to read: what cannot be written is lost without an error."""

    def __init__(self, out: TextSink) -> None:
        self._out = out

    def write(self, text: str, /) -> int:
        with suppress(OSError):
            self._out.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._out.flush()


def text_stdout() -> TextIO:
    """Standard output, which writes a ``?`` for what its encoding lacks instead of ending the run."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    return sys.stdout


def forget_stdout(error: OSError) -> None:
    """Standard output failed with this: let what is still buffered go nowhere. That nobody reads any more goes without
    a word; a full disk does not.
    """
    if error.errno not in {errno.EPIPE, errno.EIO}:  # a reader that has left, a terminal that was closed
        with suppress(OSError):
            print(f"newel: Standard output cannot be written: {error.strerror}.", file=sys.stderr)  # noqa: T201 — a person must know
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
