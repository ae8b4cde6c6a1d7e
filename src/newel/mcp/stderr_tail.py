"""The last that a server wrote where no protocol is spoken."""

from __future__ import annotations

from typing import Final

KEPT: Final = 8 * 1024


class StderrTail:
    """Keeps the last ``KEPT`` bytes."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, chunk: bytes) -> None:
        self._bytes += chunk[-KEPT:]
        del self._bytes[:-KEPT]

    @property
    def text(self) -> str:
        """As text, from the beginning of a line where something was cut off."""
        data = bytes(self._bytes)
        if len(data) == KEPT:
            data = data.partition(b"\n")[2] or data
        return data.decode(errors="replace")
