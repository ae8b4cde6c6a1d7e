"""Python's own programs under faketime 0.9.10, whose ``clock_nanosleep`` refuses every monotonic sleep: they wait by ``select``."""

import select
import time


def _sleep(seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        select.select([], [], [], left)


time.sleep = _sleep
