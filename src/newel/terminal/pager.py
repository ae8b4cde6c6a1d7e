"""A long text in the pager of the user's choice, as git shows its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from typing import Final, TextIO

from rich.text import Text

from newel.config.themes import Theme
from newel.terminal.renderers.diff_styles import diff_pieces
from newel.terminal.renderers.styles import Styles
from newel.workspace.process.own_programs import own_environ, own_path

LESS = "FRX"
"""Default options of ``less``: quit if the text fits on the screen, keep colours, do not clear the screen at the end."""

PIECE: Final = 200
"""Lines that are painted at once: a few screens."""


def pager_of(environ: Mapping[str, str]) -> list[str]:
    """The command of ``PAGER``, by default ``less``; empty if it is not installed, or ``PAGER`` is empty or ``cat``."""
    try:
        command = shlex.split(environ.get("PAGER", "less"))
    except ValueError:  # an unclosed quote
        return []
    is_used = command and command != ["cat"] and shutil.which(command[0], path=own_path(environ=environ))
    return command if is_used else []


def page(
    out: TextIO, text: str, environ: Mapping[str, str] = os.environ, *, theme: Theme | None = None
) -> bool:
    """Show text with diffs in it in the pager if the terminal is too small for it; return whether the pager was used. Until the
    pager ends, only it handles Ctrl+C.
    """
    command = pager_of(environ)
    if not command or not out.isatty() or environ.get("TERM", "dumb") == "dumb":
        return False
    width, height = os.get_terminal_size(out.fileno())
    if text.count("\n") < height:
        return False
    pager_environ = {"LESS": LESS} | own_environ(environ)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=pager_environ) as pager:
            assert pager.stdin is not None  # noqa: S101 — it is a pipe
            with contextlib.suppress(BrokenPipeError), pager.stdin:  # the user has left before the end
                for piece in painted(text, Styles(environ, theme), width):
                    pager.stdin.write(piece.encode(out.encoding, "replace"))
    finally:
        signal.signal(signal.SIGINT, before)
    return True


def painted(text: str, styles: Styles, width: int) -> Iterator[str]:
    """Text with diffs in it in colour, piece by piece: the user reads the first screen while the rest is painted."""
    lines = diff_pieces(text)
    while some := [*itertools.islice(lines, PIECE)]:
        piece = Text(no_wrap=True, overflow="ignore")
        for line in some:
            piece.append_text(line)
        yield _whole(piece, styles, width)
    yield "\n"


def _whole(piece: Text, styles: Styles, width: int) -> str:
    """A painted piece with the empty lines around it."""
    lines = piece.plain.split("\n")
    filled = [at for at, line in enumerate(lines) if line.strip()]
    if not filled:
        return "\n" * (len(lines) - 1)
    return "\n" * filled[0] + styles.paint(piece, width) + "\n" * (len(lines) - 1 - filled[-1])
