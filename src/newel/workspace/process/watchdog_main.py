"""The watchdog's process: waits for the end of Newel, then ends the commands in the table.

Its standard input is the pipe that only Newel holds open, its standard output the table. It imports as little as possible, to
start fast and to cost little beside a Newel that runs for days.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Final

from newel.workspace.process import process_mark
from newel.workspace.process.process_mark import LINE_BYTES, ProcessMark

GRACE: Final = 1.0
"""Seconds between TERM and KILL, and of repeating KILL."""

PAUSE: Final = 0.02
"""Seconds between two checks of the remaining processes."""


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    entries = _read_table()
    process_mark.signal(entries, signal.SIGTERM)
    until = time.monotonic() + GRACE
    while process_mark.is_running(entries) and time.monotonic() < until:
        time.sleep(PAUSE)
    while process_mark.is_running(entries) and time.monotonic() < until + GRACE:
        process_mark.signal(entries, signal.SIGKILL)
        time.sleep(PAUSE)


def _read_table() -> list[ProcessMark]:
    table = os.pread(1, os.fstat(1).st_size, 0)
    lines = (table[start : start + LINE_BYTES] for start in range(0, len(table), LINE_BYTES))
    return [ProcessMark.read(line) for line in lines if line.strip()]
