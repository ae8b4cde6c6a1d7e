"""A long text in the pager of the user's choice, as git shows its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TextIO

from rich.cells import cell_len
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


Painter = Callable[[str, Styles, int], Iterator[str]]
"""Yields a text in colour, piece by piece, for lines of a width."""


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


def _screen_lines(piece: str, width: int) -> int:
    """How many lines a painted piece takes: the terminal breaks long ones."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", piece).removesuffix("\n").split("\n")
    return sum(1 + max(cell_len(line) - 1, 0) // max(width, 1) for line in lines)


def painted_markdown(text: str, styles: Styles, width: int) -> Iterator[str]:
    """Without links of the terminal's kind, which an older ``less`` shows as they are."""
    for line in styles.markdown(text, width, has_links=False):
        yield f"{line}\n"


def page(
    out: TextIO,
    text: str,
    environ: Mapping[str, str] = os.environ,
    *,
    theme: Theme | None = None,
    paint: Painter = painted,
) -> bool:
    """Show a text in the pager if the terminal is too small for it; return whether the pager was used. Until the pager ends, only it
    handles Ctrl+C.
    """
    command = pager_of(environ)
    if not command or not out.isatty() or environ.get("TERM", "dumb") == "dumb":
        return False
    width, height = os.get_terminal_size(out.fileno())
    pieces = paint(text, Styles(environ, theme), width)
    beginning: list[str] = []
    filled = 0
    while filled < height:
        if (piece := next(pieces, None)) is None:
            return False
        beginning.append(piece)
        filled += _screen_lines(piece, width)
    pager_environ = {"LESS": LESS} | own_environ(environ)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=pager_environ) as pager:
            assert pager.stdin is not None  # noqa: S101 — it is a pipe
            with contextlib.suppress(BrokenPipeError), pager.stdin:  # the user has left before the end
                for piece in itertools.chain(beginning, pieces):
                    pager.stdin.write(piece.encode(out.encoding, "replace"))
    finally:
        signal.signal(signal.SIGINT, before)
    return True
