"""The end after Ctrl+C in a terminal."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys


class Interruption:
    """Ends the process by SIGINT once it was ``noted``, after everything else that is done at its exit.

    A shell sees the same exit code, 130, but only then ends the loop, too, in which it has started the command.
    """

    def __init__(self) -> None:
        self.is_noted = False
        atexit.register(self._end)  # what is registered first is called last

    def note(self) -> None:
        """Ctrl+C has ended the command. Where no terminal has sent it, the exit code alone tells so."""
        self.is_noted = any(map(_is_foreground, range(3)))

    def _end(self) -> None:
        if self.is_noted:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError):
                    stream.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)


def _is_foreground(descriptor: int) -> bool:
    """Whether it is the terminal whose foreground this process is in."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False
