"""Ends what servers leave behind if Newel is killed: ``python -m newel.mcp.watchdog``.

One such process stands beside Newel while it has servers. It reads which processes there are from a pipe that
only Newel holds open; when that ends, however it ended, whatever is still registered is stopped. A server that
minds the end of its input needs none of this, but not every server does, and none that hangs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Final

from newel.workspace.descendants import MARK, Descendants
from newel.workspace.environment import child_env

GRACE: Final = 1.0
"""Seconds between TERM and KILL, and after KILL."""

NO_SESSION: Final = -1
MARKS_ARE_SEEN: Final = sys.platform == "linux"


class Recorded(Descendants):
    """The processes of a server that another process started, by their mark and their session."""

    def __init__(self, mark: str, session: int) -> None:
        super().__init__({})
        self._mark = mark
        self.session = session


class Watchdog:
    """Our end of it. The process starts with the first server and ends with us."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, processes: Descendants) -> None:
        """Register a server. Called before it starts too, so that no moment is left: its processes are known by
        their mark then, and by their session once that has a number.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "newel.mcp.watchdog"],
                env=child_env(os.environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                bufsize=0,
            )
        self._tell(f"{_mark(processes)} {processes.session or NO_SESSION}")

    def forget(self, processes: Descendants) -> None:
        self._tell(_mark(processes))

    def close(self) -> None:
        """Nothing is registered any more: let it end."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.write(f"{line}\n".encode())
            except BrokenPipeError:  # somebody killed it: start another for the next server
                self._process.wait()
                self._process.stdin.close()
                self._process = None


def _mark(processes: Descendants) -> str:
    return processes.environ[MARK].rpartition(" ")[2]


def main() -> None:
    """Take down ``<mark> <session>`` to watch and ``<mark>`` to forget, until the pipe ends."""
    watched: dict[str, int] = {}
    for line in sys.stdin:
        match line.split():
            case [mark, session]:
                watched[mark] = int(session)
            case [mark]:
                watched.pop(mark, None)
            case _:
                pass
    # Where there is no /proc no mark can be read, and what has no number cannot be named.
    known = {mark: session for mark, session in watched.items() if session != NO_SESSION or MARKS_ARE_SEEN}
    left = [Recorded(mark, session) for mark, session in known.items()]
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + GRACE
        while (left := [each for each in left if each.live()]) and time.monotonic() < until:
            for each in left:
                each.signal(number)
            time.sleep(0.05)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    main()
