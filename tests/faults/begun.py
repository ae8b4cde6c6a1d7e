"""How a program of the tests waits until it is traced: its imports are thousands of calls that no test wants to follow."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_SET_TRACER: Final = 0x59616D61
_ANY: Final = ctypes.c_ulong(-1)


def wait() -> None:
    """Say that all is imported, and wait for a line."""
    # Where Linux lets only parents trace, a process may allow others to.
    ctypes.CDLL(None).prctl(_SET_TRACER, _ANY, 0, 0, 0)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
