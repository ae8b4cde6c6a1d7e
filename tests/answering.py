"""When a question that interrupts takes keys for its answer, as seen from its terminal."""

from __future__ import annotations

import termios
import time
from collections.abc import Callable
from typing import Final

from newel.terminal.ui.prompt_line import QUIET_S

PATIENCE: Final = 15.0
"""Seconds to wait for what must come; only a failure takes so long."""
TAKEN: Final = "Enter answers"
"""What the state line says as soon as keys count."""


def until_taken(tty: int, look: Callable[[], str]) -> None:
    """Wait until keys count: a key that comes earlier is no answer. ``look`` waits a moment and returns what is in view.

    Where keys are handled one by one, the state line tells. Where lines are read, the terminal is in line mode but for
    the pause; a pause that is over already has not been seen, so this does not wait for one for ever.
    """
    begun = time.monotonic()
    is_paused = False
    while True:
        in_line_mode = bool(termios.tcgetattr(tty)[3] & termios.ICANON)
        view = look()
        waited = time.monotonic() - begun
        if TAKEN in view or (in_line_mode and (is_paused or waited > QUIET_S + 0.4)):
            return
        is_paused = is_paused or not in_line_mode
        assert waited < PATIENCE, f"No answer was taken. The screen:\n{view}"
