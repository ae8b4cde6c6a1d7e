"""Waits until an interrupting question accepts keys, as seen from its terminal."""

from __future__ import annotations

import termios
import time
from collections.abc import Callable
from typing import Final

from newel.terminal.ui.line_reader import QUIET_S

PATIENCE: Final = 15.0
"""Seconds to wait for what must come; only a failure takes so long."""
TAKEN: Final = "Enter answers"
"""What the state line says as soon as keys count."""


def wait_until_accepted(tty: int, look: Callable[[], str]) -> None:
    """Wait until keys are accepted: earlier ones are ignored. ``look`` waits a moment and returns the screen's text.

    If keys are handled one by one, the state line shows it. If lines are read, the terminal leaves line mode only for
    the pause; a pause that is already over cannot be seen, so this does not wait for one forever.
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
