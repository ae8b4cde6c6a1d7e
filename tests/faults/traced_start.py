"""How a test's program waits for its tracer: no test wants to follow the thousands of calls of its imports."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_SET_TRACER: Final = 0x59616D61
_ANY: Final = ctypes.c_ulong(-1)


def wait_for_tracer() -> None:
    """Report that everything is imported, and wait for a line."""
    # Where Linux lets only parents trace, a process can allow others to.
    ctypes.CDLL(None).prctl(_SET_TRACER, _ANY, 0, 0, 0)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
