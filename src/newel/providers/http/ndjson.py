"""JSON objects, one a line, read as the bytes arrive."""

from __future__ import annotations

from newel.agent.errors import BadResponse

MAX_LINE = 8 * 2**20
"""Bytes of one line; no honest server comes near."""


class NdjsonParser:
    """Feed it bytes, take the whole lines that are not blank. Holds one line at most, and raises ``BadResponse`` for a
    longer one.
    """

    def __init__(self, longest: int = MAX_LINE) -> None:
        self._longest = longest
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        *whole, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for line in whole:
            self._keep(line)
            lines += self.close()
        self._keep(rest)
        return lines

    def close(self) -> list[bytes]:
        """The line that the end left unfinished, if any."""
        line = b"".join(self._rest).strip()
        self._rest.clear()
        self._size = 0
        return [line] if line else []

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._longest:
            raise BadResponse(f"The server sent a line of more than {self._longest // 2**20} MiB; refused.")
        if piece:
            self._rest.append(piece)
