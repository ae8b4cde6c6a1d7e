"""A long text in the pager of the user's choice, as git shows its own."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, TextIO

import anyio

from newel.terminal.renderers import styles
from newel.workspace.process.environment import child_env
from newel.workspace.process.own_programs import own_path

LESS = "FRX"
"""Default options of ``less``: quit if the text fits on the screen, keep colours, do not clear the screen at the end."""


def pager_of(environ: Mapping[str, str]) -> list[str]:
    """The command of ``PAGER``, by default ``less``; empty if it is not installed, or ``PAGER`` is empty or ``cat``."""
    try:
        command = shlex.split(environ.get("PAGER", "less"))
    except ValueError:  # an unclosed quote
        return []
    is_used = command and command != ["cat"] and shutil.which(command[0], path=own_path(environ=environ))
    return command if is_used else []


class PagedText(NamedTuple):
    """A pager's command with its environment, and the text for it."""

    command: list[str]
    environ: dict[str, str]
    text: bytes


def paged(out: TextIO, text: str, environ: Mapping[str, str] = os.environ) -> PagedText | None:
    """Text with diffs in it for the pager; None if there is none, or if the terminal is large enough for the text."""
    command = pager_of(environ)
    if not command or not out.isatty() or environ.get("TERM", "dumb") == "dumb":
        return None
    width, height = os.get_terminal_size(out.fileno())
    if text.count("\n") < height:
        return None
    painted = styles.Styles(environ).paint(styles.with_diff(text), width)
    own = {"PATH": own_path(environ=environ)}
    pager_environ = {"TERM": environ["TERM"], "LESS": environ.get("LESS", LESS), **own}
    return PagedText(command, child_env(environ, pager_environ), painted.encode(out.encoding, "replace"))


def page(out: TextIO, text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Show text with diffs in it in the pager if the terminal is too small for it; return whether the pager was used. Until the
    pager ends, only it handles Ctrl+C.
    """
    shown = paged(out, text, environ)
    if shown is None:
        return False
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        subprocess.run(shown.command, input=shown.text, env=shown.environ, check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    return True


async def page_beside(shown: PagedText) -> None:
    """Run the pager while the event loop goes on. The terminal must be free. Cancelled, the pager is killed."""
    import termios

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    process = await anyio.open_process(shown.command, stdout=None, stderr=None, env=shown.environ)
    try:
        if process.stdin is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it was left before its end
                await process.stdin.send(shown.text)
                await process.stdin.aclose()
        await process.wait()
    except BaseException:
        process.kill()
        raise
    finally:
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)
