"""The port to a host's shell, and how sh text with any bytes reaches it: over standard input, so that no process list shows it."""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple, Protocol

RUN_COMMAND: Final = """exec sh -c 'IFS= read -r s && eval "$(printf %b "$s")"'"""
"""The command line for ssh: a constant that any login shell passes on to sh, which reads the text itself.

Half a line, from a connection that broke, is not evaluated.
"""

_SAFE: Final = re.compile(rb"[A-Za-z0-9@%+=:,./_-]+")


class HostAnswer(NamedTuple):
    """The exit status of sh text, and its standard output."""

    status: int
    data: bytes


class RemoteHostPort(Protocol):
    """A persistent shell on a host."""

    async def ask(self, script: str, /, *, given: bytes = b"") -> HostAnswer:
        """Evaluate one line of sh text, with ``given`` as its standard input.

        The text (see ``quote``) reads exactly the bytes that are given, terminates, and leaves no state behind that later
        requests must not see. It must change nothing: it may be sent twice. Raises ``WorkspaceError``.
        """
        ...

    async def change(self, script: str, /, *, given: bytes = b"") -> HostAnswer:
        """As ``ask``, but sent only once. Raises ``ConnectionLost`` if the outcome is unknown."""
        ...


def quote(word: str) -> str:
    """A word of sh text on one line: a newline becomes ``$n``. ``word`` is as from ``os.fsdecode``, so that it may be any bytes."""
    if _SAFE.fullmatch(os.fsencode(word)):
        return word
    return "'" + word.replace("'", "'\\''").replace("\n", "'\"$n\"'") + "'"


_ESCAPED: Final = {byte: f"\\0{byte:03o}" for byte in range(256) if not 32 <= byte < 127} | {
    ord("\n"): r"\n",
    ord("\\"): r"\\",
}


def encode_line(script: str) -> bytes:
    """The line that ``RUN_COMMAND`` reads, in printable ASCII. The text may be any but NUL.

    Raises ``UnicodeEncodeError`` for unpaired surrogates, other than those of ``os.fsdecode``.
    """
    return os.fsencode(script).decode("latin-1").translate(_ESCAPED).encode() + b"\n"
