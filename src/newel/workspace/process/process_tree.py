"""A command and all processes that it starts: ended together, and with Newel, even if Newel is killed.

Each Newel that has started a command has one small process beside it, the watchdog. It waits for end-of-file on a pipe that only
Newel holds open, and which the system closes however Newel ends. The running commands are in a shared table: Newel adds each before
it starts, and removes it when it has ended. That wakes nobody, so a command costs two or three short writes to memory.

What waits is a shell. If the table has a command when Newel is gone, the shell becomes a Python with ``watchdog_main``.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from newel.workspace.process import process_mark, watchdog_main
from newel.workspace.process.environment import child_env
from newel.workspace.process.launcher import DIRECT, ProcessLauncher, StartedProcess, Stream
from newel.workspace.process.process_mark import LINE_BYTES, MARK, NO_LINE, ProcessMark, new_mark
from newel.workspace.process.python_program import code_of, in_memory, nameless_file, own_python

P = TypeVar("P", bound=StartedProcess)


class ProcessTree:
    """The processes of a command that is started with ``environ``, in a session of its own.

    ``newel.workspace.process.process_mark`` says how they are known. From ``start`` to ``forget`` they end with this process,
    however that ends.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        mark = new_mark()
        self._environ = {**environ, MARK: f"{environ.get(MARK, '')} {mark}".lstrip()}
        self._mark = ProcessMark(mark)

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        stdin: Stream,
        stdout: Stream,
        stderr: Stream,
    ) -> subprocess.Popen[bytes]:
        """Start the first of them, as a child of this process. Raises what ``Popen`` raises; then there is nothing to forget."""
        return self.launch(DIRECT, argv, cwd=cwd, streams=(stdin, stdout, stderr))

    def launch(
        self,
        launcher: ProcessLauncher[P],
        argv: Sequence[str],
        *,
        cwd: str,
        streams: tuple[Stream, Stream, Stream],
    ) -> P:
        """Start the first of them by a launcher, with these standard streams. Raises as ``start``."""
        try:
            WATCHDOG.watch(self._mark)  # by its mark, from the first moment
            process = launcher.start(argv, cwd=cwd, env=self._environ, streams=streams, mark=self._mark.mark)
        except BaseException:
            self.forget()
            raise
        self._mark = ProcessMark(self._mark.mark, process.pid, process_mark.start_time(process.pid))
        WATCHDOG.update(self._mark)
        return process

    def is_running(self) -> bool:
        return process_mark.is_running([self._mark])

    def find_remaining(self, *, all_of_them: bool) -> list[str]:
        return process_mark.find_remaining(self._mark, all_of_them=all_of_them)

    def signal(self, number: signal.Signals, *, but_first: bool = False) -> bool:
        """Send a signal to all of them, or to all ``but_first``: not to those of ``signal_first``. Returns whether any of them runs."""
        return process_mark.signal([self._mark], number, spared=self._mark.session if but_first else 0)

    def signal_first(self, number: signal.Signals) -> bool:
        """Send a signal to the group of the first of them: at once, as no other is looked for. False if the first one has ended."""
        return process_mark.signal_first(self._mark, number)

    def leave(self, folder: str) -> None:
        """They run on after their command, which ran in ``folder``."""
        add_background(folder, self._mark)

    def forget(self) -> None:
        WATCHDOG.forget(self._mark)


_BACKGROUND_LOCK: Final = threading.Lock()
_background: list[tuple[str, ProcessMark]] = []
"""The commands of this process, with their folders, that have left processes running."""


def add_background(folder: str, command: ProcessMark) -> None:
    """Remember that a command in ``folder`` has left processes running."""
    with _BACKGROUND_LOCK:
        _background.append((folder, command))


def find_background(root: str) -> list[str]:
    """Describe the processes that commands in ``root`` or below it have left running, and that still run."""
    with _BACKGROUND_LOCK:
        running = [
            (folder, mark, process_mark.find_remaining(mark, all_of_them=not mark.session))
            for folder, mark in _background
        ]
        _background[:] = [(folder, mark) for folder, mark, processes in running if processes]
    within = root.rstrip("/") + "/"
    return [
        process
        for folder, _, processes in running
        if f"{folder}/".startswith(within)
        for process in processes
    ]


# -- the watchdog -----------------------------------------------------------------------------------------

_NONE: Final = -1

_WAIT: Final = """
trap '' INT HUP TERM
while read -r nothing; do :; done
while read -r command; do [ -z "$command" ] || exec "$@"; done <&1
"""
"""The watchdog while it waits."""

_PROGRAM: Final = """
import marshal, sys, types
with open(int(sys.argv[1]), "rb") as given:
    modules = marshal.load(given)
for name, code in modules.items():
    sys.modules[name] = module = types.ModuleType(name)
    exec(code, module.__dict__)
module.main()
"""
"""What it becomes. It reads no file of Newel's, which may have been updated or removed since."""


class Watchdog:
    """The client, thread-safe. The process starts with the first command, and again if it was killed."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[str, int] = {}
        self._free: list[int] = []
        self._process = self._pipe = self._table = _NONE

    def watch(self, command: ProcessMark) -> None:
        """Add a command before it starts. Raises ``OSError`` if the watchdog cannot run."""
        with self._lock:
            if not self._lives():
                self._start()
            # Each line is either used or free; if none is free, append one.
            self._lines[command.mark] = self._free.pop() if self._free else len(self._lines)
            self._write(self._lines[command.mark], command.line())

    def update(self, command: ProcessMark) -> None:
        """Update the entry of a watched command, which runs: if that fails, the earlier entry, by its mark alone, holds as well."""
        with self._lock, contextlib.suppress(OSError):
            self._write(self._lines[command.mark], command.line())

    def forget(self, command: ProcessMark) -> None:
        """Remove a command: processes that it left running may stay. If that fails, they end with Newel."""
        with self._lock, contextlib.suppress(OSError):
            if (line := self._lines.pop(command.mark, None)) is not None:
                self._free.append(line)
                self._write(line, NO_LINE)

    def leave_to_parent(self) -> None:
        """After a fork, in the child: it must neither hold the pipe open nor use the table."""
        for descriptor in (self._pipe, self._table):
            if descriptor != _NONE:
                os.close(descriptor)
        self._reset()

    def _write(self, line: int, text: bytes) -> None:
        os.pwrite(self._table, text, line * LINE_BYTES)

    def _lives(self) -> bool:
        if self._process == _NONE:
            return False
        try:
            return os.waitpid(self._process, os.WNOHANG) == (0, 0)
        except ChildProcessError:  # it was reaped elsewhere
            return False

    def _start(self) -> None:
        if self._table == _NONE:
            self._table = nameless_file()
        if self._pipe != _NONE:
            os.close(self._pipe)
            self._process = self._pipe = _NONE
        end, pipe = os.pipe()
        modules = (process_mark, watchdog_main)
        try:
            with in_memory(marshal.dumps({each.__name__: code_of(each) for each in modules})) as code:
                python = [own_python(), "-I", "-S", "-c", _PROGRAM, str(code.fileno())]
                process = subprocess.Popen(
                    ["/bin/sh", "-c", _WAIT, "newel-watchdog", *python],
                    stdin=end,
                    stdout=self._table,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[code.fileno()],
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
        process.returncode = 0  # it ends after us, so nothing may wait for it


WATCHDOG: Final = Watchdog()
"""This process's watchdog."""

os.register_at_fork(after_in_child=WATCHDOG.leave_to_parent)
