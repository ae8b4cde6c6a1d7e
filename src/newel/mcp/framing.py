"""Framing of MCP messages: one per line, limited in length, with little other output in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from newel.text.lines import LineSplitter

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of one message: enough for the largest image and the largest text of a result."""
MAX_JUNK_LINES: Final = 1_000
MAX_JUNK_BYTES: Final = 1024 * 1024
"""Bytes of other output that a server may print between two messages."""

MAX_TAIL_BYTES: Final = 8 * 1024


class LimitExceeded(Exception):
    """A server exceeded a limit; the message is for the user."""


class JsonLineFramer:
    """Splits a stream into lines, and counts those that are not MCP. Raises ``LimitExceeded``."""

    def __init__(self) -> None:
        self._lines = LineSplitter(MAX_MESSAGE)
        self._junk_lines = 0
        self._junk_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes."""
        lines = self._lines.feed(chunk)
        if self._lines.overflow:
            raise LimitExceeded(f"It sent a message of more than {MAX_MESSAGE // 2**20} MiB.")
        return lines

    def message(self) -> None:
        self._junk_lines = self._junk_bytes = 0

    def junk(self, line: bytes) -> None:
        self._junk_lines += 1
        self._junk_bytes += len(line)
        if self._junk_lines > MAX_JUNK_LINES or self._junk_bytes > MAX_JUNK_BYTES:
            raise LimitExceeded(
                f"It printed too much output that is not MCP: {self._junk_lines:,} lines, {self._junk_bytes:,} bytes."
            )


class StderrTail:
    """The end of what a server printed outside the protocol: the last ``MAX_TAIL_BYTES``."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, chunk: bytes) -> None:
        self._bytes += chunk[-MAX_TAIL_BYTES:]
        del self._bytes[:-MAX_TAIL_BYTES]

    @property
    def text(self) -> str:
        """Return the text, from the start of a line if the beginning was cut off."""
        data = bytes(self._bytes)
        if len(data) == MAX_TAIL_BYTES:
            data = data.partition(b"\n")[2] or data
        return data.decode(errors="replace")


def parse(line: bytes) -> SessionMessage | None:
    """Return a line as a message, None if it is not one."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None
