"""Another program on this terminal, and the terminal afterwards as it was before."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import anyio

from newel.agent.errors import UsageError
from newel.terminal.ui.terminal_ui import TerminalUI
from newel.workspace.process.environment import child_env

RESET: Final = (
    "\x1b[0m\x1b[?1047l\x1b[?25h\x1b[?7h\x1b[?1l\x1b>"
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b(B"
)
"""Colours, the other screen, the cursor, wrapping, keys, mouse, focus, pasting, characters: as a terminal begins."""


async def run_interactive(command: Sequence[str], ui: TerminalUI) -> int:
    """Give the terminal to a program until it ends, however that is; returns its exit code, 128 + N if signal N ended it.
    Cancelled, it is killed. Raises ``UsageError`` where there is no terminal.
    """
    import termios

    fd = sys.stdin.fileno()
    if not (os.isatty(fd) and sys.stdout.isatty()):
        raise UsageError("/shell needs a terminal. Use /cmd COMMAND here.")
    environ = {"TERM": os.environ.get("TERM", "dumb")}
    async with ui.suspend():
        before = termios.tcgetattr(fd)
        try:
            process = await anyio.open_process(
                command, stdin=None, stdout=None, stderr=None, env=child_env(os.environ, environ)
            )
            try:
                code = await process.wait()
            except BaseException:
                process.kill()
                raise
        finally:
            termios.tcsetattr(fd, termios.TCSAFLUSH, before)
            sys.stdout.write(RESET)
            sys.stdout.flush()
    return 128 - code if code < 0 else code
