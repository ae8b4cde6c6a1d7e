"""Standard output: its encoding, sinks that may fail silently, lines for programs, and its end."""

from __future__ import annotations

import errno
import os
import select
import sys
import time
from contextlib import suppress
from typing import BinaryIO, Final, Protocol, TextIO

LOOK_MS: Final = 250
"""Milliseconds between two looks whether a signal has arrived, while nobody reads."""

STOPPED_S: Final = 2.0
"""Seconds that a reader has for another piece once a signal has arrived."""


class TextSink(Protocol):
    """A destination of text."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...


class LossySink:
    """A sink that ignores write errors."""

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


def write_line(out: BinaryIO, line: bytes) -> None:
    """Write a line to a program; see ``write_all``."""
    out.flush()
    try:
        descriptor = out.fileno()
    except OSError:  # no file
        out.write(line + b"\n")
    else:
        write_all(descriptor, line + b"\n")


def write_all(descriptor: int, data: bytes) -> None:
    """Write ``data``, however slowly it is read. Raises ``OSError`` if the reader has gone, and if it has stopped reading and a signal
    of ``newel.terminal.signals.STOP`` arrives: a program that waits for our end may never read again.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    rest = memoryview(data)
    while rest:
        _await_reader(poll)
        with suppress(BlockingIOError):  # a descriptor that does not block may be full again
            rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]  # so much does not block


def _await_reader(poll: select.poll) -> None:
    if poll.poll(0):
        return
    from newel.terminal.signals import arrived

    stopped_at: float | None = None
    while not poll.poll(LOOK_MS):
        if not arrived():
            continue
        stopped_at = stopped_at or time.monotonic()
        if time.monotonic() - stopped_at > STOPPED_S:
            raise OSError(errno.EAGAIN, "its reader has stopped reading")


def discard_stdout(error: OSError) -> None:
    """Discard what is buffered for standard output after ``error``. Prints a message, unless the reader has gone."""
    if error.errno not in {errno.EPIPE, errno.EIO}:  # the reader has gone, the terminal was closed
        with suppress(OSError):
            print(f"newel: Cannot write to standard output: {error.strerror}.", file=sys.stderr)  # noqa: T201 — the last resort
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
