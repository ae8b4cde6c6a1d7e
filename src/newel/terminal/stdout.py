"""Standard output: its encoding, sinks that may fail silently, and its end."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import Protocol, TextIO


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


def discard_stdout(error: OSError) -> None:
    """Discard what is buffered for standard output after ``error``. Prints a message, unless the reader has gone."""
    if error.errno not in {errno.EPIPE, errno.EIO}:  # the reader has gone, the terminal was closed
        with suppress(OSError):
            print(f"newel: Cannot write to standard output: {error.strerror}.", file=sys.stderr)  # noqa: T201 — the last resort
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
