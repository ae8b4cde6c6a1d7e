"""A long text in the pager of the user's choice, as git shows its own."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from typing import TextIO

from newel.terminal.renderers.diff_styles import with_diff
from newel.terminal.renderers.styles import Styles
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


def page(out: TextIO, text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Show text with diffs in it in the pager if the terminal is too small for it; return whether the pager was used. Until the
    pager ends, only it handles Ctrl+C.
    """
    command = pager_of(environ)
    if not command or not out.isatty() or environ.get("TERM", "dumb") == "dumb":
        return False
    width, height = os.get_terminal_size(out.fileno())
    if text.count("\n") < height:
        return False
    painted = Styles(environ).paint(with_diff(text), width)
    own = {"PATH": own_path(environ=environ)}
    pager_environ = {"TERM": environ["TERM"], "LESS": environ.get("LESS", LESS), **own}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        subprocess.run(
            command,
            input=painted.encode(out.encoding, "replace"),
            env=child_env(environ, pager_environ),
            check=False,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    return True
