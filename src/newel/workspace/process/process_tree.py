"""A command and all processes that it starts, watched from the start and ended together."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

from newel.workspace.process import process_mark
from newel.workspace.process.lineage import inherit_number, new_mark
from newel.workspace.process.process_mark import MARK, ProcessMark
from newel.workspace.process.watchdog import WATCHDOG


class ProcessTree:
    """The processes of a command that is started with ``environ``, in a session of its own.

    ``newel.workspace.process.process_mark`` says how they are known. From ``start`` to ``forget`` they end with this process,
    however that ends.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        mark = new_mark()
        self._environ = {**environ, MARK: f"{environ.get(MARK, '')} {mark}".lstrip()}
        self._origin = ProcessMark(mark)

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        stdin: int | IO[bytes],
        stdout: int | IO[bytes],
        stderr: int | IO[bytes],
    ) -> subprocess.Popen[bytes]:
        """Start the first of them. Raises what ``Popen`` raises; then there is nothing to forget."""
        try:
            WATCHDOG.watch(self._origin)  # by its mark, from the first moment
            with inherit_number(self._origin.mark):
                process = subprocess.Popen(
                    argv,
                    cwd=cwd,
                    env=self._environ,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    bufsize=0,
                    start_new_session=True,
                )
        except BaseException:
            self.forget()
            raise
        self._origin = ProcessMark(self._origin.mark, process.pid, process_mark.start_time(process.pid))
        WATCHDOG.update(self._origin)
        return process

    def is_running(self) -> bool:
        return process_mark.is_running([self._origin])

    def find_remaining(self, *, all_of_them: bool) -> list[str]:
        """Describe the processes that still run. With ``all_of_them`` every process of the system is checked, else only those that
        may have started after the first.
        """
        return process_mark.find_all(self._origin) if all_of_them else process_mark.find_recent(self._origin)

    def signal(self, number: signal.Signals) -> None:
        process_mark.signal([self._origin], number)

    def forget(self) -> None:
        WATCHDOG.forget(self._origin)
