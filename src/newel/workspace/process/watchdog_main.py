"""What ends the commands in the table once Newel is gone (see ``process_tree``).

Its standard output is the table. It has been handed over as compiled code, with ``process_mark``.
"""

from __future__ import annotations

import os
import time
from signal import SIGKILL, SIGTERM
from typing import Final

from newel.workspace.process.process_mark import LINE_BYTES, ProcessMark, is_running, signal

GRACE: Final = 1.0
"""Seconds between TERM and KILL, and of repeating KILL."""

PAUSE: Final = 0.02
"""Seconds between two checks of the remaining processes."""


def main() -> None:
    entries = _read_table()
    signal(entries, SIGTERM)
    until = time.monotonic() + GRACE
    while is_running(entries) and time.monotonic() < until:
        time.sleep(PAUSE)
    while is_running(entries) and time.monotonic() < until + GRACE:
        signal(entries, SIGKILL)
        time.sleep(PAUSE)


def _read_table() -> list[ProcessMark]:
    table = os.pread(1, os.fstat(1).st_size, 0)
    lines = (table[start : start + LINE_BYTES] for start in range(0, len(table), LINE_BYTES))
    return [ProcessMark.read(line) for line in lines if line.strip()]
