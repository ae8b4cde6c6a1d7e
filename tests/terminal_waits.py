"""What a test at a terminal waits for: a question that accepts keys, a screen that is painted."""

from __future__ import annotations

import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from newel.terminal.ui.line_reader import QUIET_S
from tests.processes import COMMAND_SECONDS

PATIENCE: Final = 0.6 * COMMAND_SECONDS
"""Seconds to wait for what must come; only a failure takes so long."""
PAINTING: Final = 1.0
"""Seconds that a screen may take to be complete; one that an answer streams into never is."""
TAKEN: Final = ("Enter answers", "a key answers")
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
        if any(words in view for words in TAKEN) or (in_line_mode and (is_paused or waited > QUIET_S + 0.4)):
            return
        is_paused = is_paused or not in_line_mode
        assert waited < PATIENCE, f"No answer was taken. The screen:\n{view}"


def wait_until_painted(pid: int, read: Callable[[], bool]) -> None:
    """Wait until the screen is complete: the process waits for events, and all that it wrote until then is read.

    A paint can come in parts, most of all on a busy machine, and the text that a test waits for is in one of them.
    ``read`` reads what is there without waiting and returns whether there was anything.
    """
    until = time.monotonic() + PAINTING
    while time.monotonic() < until:
        waits = _waits_for_events(pid)  # asked first: what is written after it may be unread
        if not read():
            if waits:
                return
            time.sleep(0.005)


def _waits_for_events(pid: int) -> bool:
    """Whether the main thread sleeps, or has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state not in {"R", "D"}
