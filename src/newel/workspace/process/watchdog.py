"""Sees to it that what runs ends with Newel, also if Newel is killed.

One small process (``watchdog_main``) stands beside each Newel that has started a command. It waits for the end of a
pipe whose other end only Newel holds, and which the system closes however Newel ends. What runs then stands in a table
that both share: Newel writes each command down before it starts and strikes it out when it has ended. Nobody is woken
by that, so that a command costs two or three short writes into memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from newel.workspace.process.environment import child_env
from newel.workspace.process.process_mark import LINE_BYTES, ProcessMark

_NONE: Final = -1

_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv[1]); from newel.workspace.process.watchdog_main import main; main()"
)
"""Looks for modules in the standard library and where this one was found, nowhere else."""


class Watchdog:
    """Our end of it, for all threads. The process starts with the first command, and anew if somebody killed it."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[str, int] = {}
        self._free: list[int] = []
        self._process = self._pipe = self._table = _NONE

    def watch(self, origin: ProcessMark) -> None:
        """Write a command down before it starts. Raises ``OSError`` if no watch can be kept."""
        with self._lock:
            if not self._lives():
                self._start()
            # Each line is either taken or free: where none is free, the next one is new.
            self._lines[origin.mark] = self._free.pop() if self._free else len(self._lines)
            self._write(self._lines[origin.mark], origin.line())

    def update(self, origin: ProcessMark) -> None:
        """Write down what is known by now of a command that is watched."""
        with self._lock:
            self._write(self._lines[origin.mark], origin.line())

    def forget(self, origin: ProcessMark) -> None:
        """Strike a command out: what it has left running may stay."""
        with self._lock:
            if (line := self._lines.pop(origin.mark, None)) is not None:
                self._free.append(line)
                self._write(line, b" " * LINE_BYTES)

    def leave_to_parent(self) -> None:
        """In a copy of this process (``os.fork``), which must neither hold the pipe open nor use the table."""
        for descriptor in (self._pipe, self._table):
            if descriptor != _NONE:
                os.close(descriptor)
        self._begin()

    def _write(self, line: int, text: bytes) -> None:
        os.pwrite(self._table, text, line * LINE_BYTES)

    def _lives(self) -> bool:
        if self._process == _NONE:
            return False
        try:
            return os.waitpid(self._process, os.WNOHANG) == (0, 0)
        except ChildProcessError:  # somebody else has waited for it
            return False

    def _start(self) -> None:
        if self._table == _NONE:
            self._table = _make_table()
        if self._pipe != _NONE:
            os.close(self._pipe)
            self._process = self._pipe = _NONE
        end, pipe = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(__file__).parents[3])],
                stdin=end,
                stdout=self._table,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=child_env(os.environ),
                start_new_session=True,
            )
        except OSError:
            os.close(pipe)
            raise
        finally:
            os.close(end)
        self._process, self._pipe = process.pid, pipe
        process.returncode = 0  # it ends after us, so that waiting for it would hold up our own end


def _make_table() -> int:
    """A file in memory; elsewhere one without a name."""
    if sys.platform == "linux":
        return os.memfd_create("newel-commands")
    import tempfile

    descriptor, path = tempfile.mkstemp()
    Path(path).unlink()
    return descriptor


WATCHDOG: Final = Watchdog()
"""The one of this process."""

os.register_at_fork(after_in_child=WATCHDOG.leave_to_parent)
