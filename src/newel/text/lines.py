"""Lines of a byte stream, in bounded memory."""

from __future__ import annotations


class LineSplitter:
    """Feed it chunks of any size, take the complete lines without their line feeds.

    A line of more than ``limit`` bytes is cut after ``limit + 1``, and sets ``overflow``.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.overflow = False
        self._pending: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes."""
        *ends, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            self._append(end)
            lines.append(self.flush())
        self._append(rest)
        return lines

    def flush(self) -> bytes:
        """Remove and return the unfinished line."""
        line = b"".join(self._pending)
        self._pending.clear()
        self._size = 0
        return line

    def _append(self, piece: bytes) -> None:
        # one byte over the limit shows that the line is too long
        accepted = piece[: self.limit + 1 - self._size]
        if accepted:
            self._pending.append(accepted)
            self._size += len(accepted)
            self.overflow |= self._size > self.limit
