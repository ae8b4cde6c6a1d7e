"""Runs a command of the user's own in the user's terminal, and keeps what it writes, too.

    keys ── CommandTerminal.read ──> pty ──> the command
    screen <── CommandTerminal.write ── pty <── the command      and the text of it into ``CommandResult.stdout``

The command gets a terminal of its own, so that nothing that it does to it, or leaves running in it, reaches the user's.
"""

from __future__ import annotations

import codecs
import os
import pty
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from newel.concurrency import background_tasks
from newel.text.terminal_output import TerminalText
from newel.workspace.port import CommandResult, CommandTerminal, TimeLimit
from newel.workspace.process.environment import UNATTENDED
from newel.workspace.process.launcher import ProcessLauncher, StartedProcess
from newel.workspace.process.output import Output, OutputLimits
from newel.workspace.process.runner import (
    ChildProcess,
    Started,
    start_error,
    to_completed,
    wait_for_exit,
)

LOOK_S: Final = 0.25
"""Seconds between two looks at the size of the user's terminal."""

_TAKE_OVER: Final = 'trap "" HUP; true 2>/dev/null 0<>"$0"; exec "$@"'
"""The first process of a session that opens a terminal gets Ctrl+C from it, with its children. What a command leaves running in the
background is not to end when the terminal goes with the command.
"""


async def run_in_terminal(
    argv: Sequence[str],
    *,
    cwd: str,
    environ: Mapping[str, str],
    limits: OutputLimits,
    launcher: ProcessLauncher[StartedProcess],
    terminal: CommandTerminal,
) -> CommandResult:
    """As ``run_process``; both outputs are one. Nothing is stopped by time: the user is there."""
    output = TerminalOutput(limits, terminal)
    child = TerminalProcess(argv, cwd, _attended(environ), output, launcher)
    async with background_tasks(child.pass_keys):
        ending = await wait_for_exit(child, TimeLimit(None))
    return to_completed(output.kept, ending)


def _attended(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command whose user watches it."""
    usual = {name: value for name, value in environ.items() if name not in UNATTENDED}
    return usual | {name: os.environ[name] for name in UNATTENDED if name in os.environ}


class TerminalOutput:
    """Passes a command's output on to the user's terminal as it is, and keeps its text."""

    def __init__(self, limits: OutputLimits, terminal: CommandTerminal) -> None:
        self.kept = Output(limits, None)
        self.terminal = terminal
        self.descriptor = -1
        self.due = float("-inf")
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = TerminalText()

    def add(self, stream: str, chunk: bytes) -> None:
        self.terminal.write(chunk)
        self._keep(stream, self._text.feed(self._decoder.decode(chunk)))

    async def flush(self, now: float, *, final: bool = False) -> None:
        if final:
            self._keep("stdout", self._text.feed(self._decoder.decode(b"", final=True)) + self._text.finish())
        elif now >= self.due:
            self.terminal.fit(self.descriptor)
            self.due = now + LOOK_S

    def close(self) -> None:
        self.kept.close()

    def _keep(self, stream: str, text: str) -> None:
        if text:
            self.kept.add(stream, text.encode(errors="replace"))


class TerminalProcess(ChildProcess):
    """A process in a terminal of its own."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        output: TerminalOutput,
        launcher: ProcessLauncher[StartedProcess],
    ) -> None:
        self._terminal = output.terminal
        self._sink = output
        super().__init__(argv, cwd, env, output, stdin=b"", launcher=launcher)

    async def pass_keys(self) -> None:
        """Pass on what the user types, until cancelled or the user's terminal is gone."""
        while keys := await self._terminal.read():
            self.send(keys)

    def _start(
        self, argv: Sequence[str], launcher: ProcessLauncher[StartedProcess], *, with_input: bool
    ) -> Started:
        del with_input  # it is the same terminal
        opened: list[int] = []
        try:
            ours, theirs = pty.openpty()
            opened += [ours, theirs]
            keys = os.dup(ours)
            opened.append(keys)
            self._terminal.fit(theirs, settings=True)
            # In a sandbox, the terminal has no name.
            name = "/proc/self/fd/0" if sys.platform == "linux" else os.ttyname(theirs)
            words = ["/bin/sh", "-c", _TAKE_OVER, name, *argv]
            process = self.processes.launch(
                launcher, words, cwd=self.folder, streams=(theirs, theirs, theirs)
            )
        except (OSError, ValueError) as error:
            for descriptor in opened:
                os.close(descriptor)
            raise start_error(self.folder, error, argv) from error
        os.close(theirs)
        self._sink.descriptor = ours
        return process, keys, {"stdout": ours}
