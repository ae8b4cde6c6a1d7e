"""Standard output: its encoding, sinks that may fail silently, and its end."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import Protocol, TextIO


class TextSink(Protocol):
    """What text can be written to."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...


class LossySink:
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


def discard_stdout(error: OSError) -> None:
    """Standard output failed with this: let what is still buffered go nowhere. That nobody reads any more goes without
    a word; a full disk does not.
    """
    if error.errno not in {errno.EPIPE, errno.EIO}:  # a reader that has left, a terminal that was closed
        with suppress(OSError):
            print(f"newel: Standard output cannot be written: {error.strerror}.", file=sys.stderr)  # noqa: T201 — a person must know
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
