"""Server-sent events, read as the bytes arrive: any split of the bytes gives the same events.

A byte order mark may come first; lines end in LF, CR or CRLF; ``data`` lines of one event are joined by a line feed; comments and fields
that are not used here are passed over. Where the standard drops an event that the stream's end cut off,
this reader gives it out: many servers forget the last empty line.
"""

from __future__ import annotations

import msgspec

from newel.agent.errors import BadResponse
from newel.text.lines import LineSplitter

MAX_EVENT = 8 * 2**20
"""Bytes of one event, and of one line; no honest server comes near."""


class ServerEvent(msgspec.Struct, frozen=True):
    data: bytes
    name: str = "message"


class EventParser:
    """Feed it bytes, take events. Holds at most one event, and raises ``BadResponse`` for a longer one."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max_event = max_event
        self._lines = LineSplitter(max_event)
        self._data: list[bytes] = []
        self._data_size = 0
        self._name = ""
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that this chunk completes."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = self._lines.feed(chunk)
        if self._lines.overflow:
            raise self._too_long()
        return self._parse(lines)

    def close(self) -> list[ServerEvent]:
        """The event that the end of the stream left unfinished, if any."""
        return self._parse([self._lines.flush(), b""])

    def _parse(self, lines: list[bytes]) -> list[ServerEvent]:
        if lines and self._at_start:
            self._at_start = False
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
        events: list[ServerEvent] = []
        for line in lines:
            if not line:
                if self._data:
                    events.append(ServerEvent(b"\n".join(self._data), self._name or "message"))
                    self._data = []
                    self._data_size = 0
                self._name = ""
                continue
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                self._data.append(value)
                self._data_size += len(value) + 1
                if self._data_size > self._max_event:
                    raise self._too_long()
            elif field == b"event":
                self._name = value.decode("utf-8", "replace")
        return events

    def _too_long(self) -> BadResponse:
        return BadResponse(f"The server sent an event of more than {self._max_event // 2**20} MiB; refused.")
