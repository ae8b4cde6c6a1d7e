"""How sh text reaches a host: over standard input, so that nothing of it stands in a list of processes."""

from __future__ import annotations

import os
from typing import Final

BOOT: Final = """exec sh -c 'IFS= read -r s && eval "$(printf %b "$s")"'"""
"""What ``ssh`` is told to run: a constant that every login shell passes on to sh, which reads the text itself.

Half a line, from a connection that broke, is not evaluated.
"""

_ESCAPED: Final = {byte: f"\\0{byte:03o}" for byte in range(256) if not 32 <= byte < 127} | {
    ord("\n"): r"\n",
    ord("\\"): r"\\",
}


def one_line(script: str) -> bytes:
    """The line that ``BOOT`` reads, of printable ASCII whatever the text holds; it may hold anything but NUL.

    Raises ``UnicodeEncodeError`` for halves of surrogate pairs, other than those of ``os.fsdecode``.
    """
    return os.fsencode(script).decode("latin-1").translate(_ESCAPED).encode() + b"\n"
