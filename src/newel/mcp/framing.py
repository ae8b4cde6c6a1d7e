"""Lines of a stream as MCP messages: what is none is counted, what is too long is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from newel.text.lines import LineSplitter

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of one message: the largest image that a result may carry, and the largest text."""
MAX_JUNK_LINES: Final = 1_000
MAX_JUNK_BYTES: Final = 1024 * 1024
"""What a server may print between two messages that is none."""


class TooMuchError(Exception):
    """A server has gone beyond a bound; the words are for the user."""


class JsonLineFramer:
    """Cuts a stream into lines and counts what is none of MCP. Raises ``TooMuchError``."""

    def __init__(self) -> None:
        self._lines = LineSplitter(MAX_MESSAGE)
        self._junk_lines = 0
        self._junk_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are whole now, without their ends."""
        lines = self._lines.feed(chunk)
        if self._lines.overflow:
            raise TooMuchError(f"It sent a message of more than {MAX_MESSAGE // 2**20} MiB.")
        return lines

    def message(self) -> None:
        self._junk_lines = self._junk_bytes = 0

    def junk(self, line: bytes) -> None:
        self._junk_lines += 1
        self._junk_bytes += len(line)
        if self._junk_lines > MAX_JUNK_LINES or self._junk_bytes > MAX_JUNK_BYTES:
            raise TooMuchError(
                f"It floods its output with what is not MCP: {self._junk_lines:,} lines, {self._junk_bytes:,} bytes."
            )


def parse(line: bytes) -> SessionMessage | None:
    """A line as a message, None if it is none."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None
