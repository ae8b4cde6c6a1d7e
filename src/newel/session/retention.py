"""Deletes sessions that are older than the user wants to keep them."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

from newel.agent.errors import SessionError
from newel.session.appender import Appender
from newel.session.paths import session_files

DAY_S: Final = 24 * 3600.0

MARK: Final = ".swept"
"""The file whose time is that of the last deletion."""


def delete_old_sessions(directory: Path, days: int) -> None:
    """Delete the sessions of all projects whose last message is older, at most once a day. Those that are open stay. Does not raise."""
    now = time.time()
    mark = directory / MARK
    with contextlib.suppress(OSError):
        if now - mark.stat().st_mtime < DAY_S:
            return
    with contextlib.suppress(OSError):  # there is no session yet
        mark.touch(mode=0o600)
        os.utime(mark)
    for path, state in session_files(directory):
        if now - state.st_mtime > days * DAY_S:
            with contextlib.suppress(SessionError):  # it is open, or cannot be deleted: tomorrow again
                session = Appender(path)
                try:
                    session.delete()
                finally:
                    session.release()
