"""Ends this process when the program that started it is gone, however that ended.

The program holds the only writing end of a pipe that is our standard input; the system closes it even after ``kill -9``. A thread
waits for that, not the event loop: it also works while the server starts, and if the loop hangs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time
from threading import Thread
from typing import Final

from newel.agent.errors import UsageError

GRACE_S: Final = 10.0
"""Seconds that an orderly end may take."""


def exit_with_stdin() -> None:
    """Send this process SIGTERM at the end of standard input, and SIGKILL ``GRACE_S`` later. Input is discarded. Raises
    ``UsageError`` unless standard input is a pipe or a socket.
    """
    if not _is_pipe(0):
        raise UsageError(
            "--exit-with-stdin is for programs: it needs a pipe as standard input, which ends with the program. "
            "Leave it out to serve until Ctrl+C."
        )
    Thread(target=_wait_and_end, name="newel-parent-pipe", daemon=True).start()


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _wait_and_end() -> None:
    os.set_blocking(0, True)
    with contextlib.suppress(OSError):  # a socket that was reset has ended, too
        while os.read(0, 65536):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)
