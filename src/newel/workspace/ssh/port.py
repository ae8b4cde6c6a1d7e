"""What everything that works on a host needs of the connection: to ask the shell there, with any bytes."""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple, Protocol

_SAFE: Final = re.compile(rb"[A-Za-z0-9@%+=:,./_-]+")


class HostAnswer(NamedTuple):
    """What a piece of sh text left as its status and printed to its standard output."""

    status: int
    data: bytes


class RemoteHostPort(Protocol):
    """A host's shell, which stays open from one request to the next."""

    async def ask(self, script: str, /, *, given: bytes = b"") -> HostAnswer:
        """Evaluate sh text in the persistent shell of the host, with ``given`` for it to read.

        The text is one line (``quoted`` makes words of names with newlines). It reads exactly as many bytes as are
        given, ends by itself, and leaves nothing set but what later requests may find. What is asked for must change
        nothing: it may be asked twice. Raises ``WorkspaceError``.
        """
        ...

    async def change(self, script: str, /, *, given: bytes = b"") -> HostAnswer:
        """As ``ask``, but never twice. Raises ``ConnectionLost`` if it is not known whether it was done."""
        ...


def quoted(word: str) -> str:
    """A word of sh text for any path: without newlines, which stand as ``$n``, and with the bytes of the name.

    ``word`` is as ``os.fsdecode`` makes it, so that a name that is no UTF-8 comes through.
    """
    if _SAFE.fullmatch(os.fsencode(word)):
        return word
    return "'" + word.replace("'", "'\\''").replace("\n", "'\"$n\"'") + "'"
