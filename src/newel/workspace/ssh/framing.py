"""Removes the frame that ``run.sh`` prints around a program's output to mark its start and end."""

from __future__ import annotations

import re
from typing import Final

from newel.workspace.process.output import OutputSink

NOISE: Final = 4_096
"""Bytes to keep of the output before the frame: of start-up files, or ssh's error."""

_RARE: Final = b"\x1e"
"""Delimits the frame. It is rare in output, so that output is hardly ever held back as a possible frame."""


class Frame:
    """One stream: noise, the nonce, the output, and the nonce with three digits.

    ``code`` is that number, once it has arrived.
    """

    def __init__(self, nonce: bytes) -> None:
        self.code: int | None = None
        self._head = _RARE + nonce + _RARE
        self._end = _RARE + nonce + b" "
        self._ending = re.compile(re.escape(self._end) + rb"(\d{3})" + _RARE)
        self._began = False
        self._held: bytes = b""

    @property
    def noise(self) -> bytes:
        """The data before the frame, as long as no frame has started."""
        return b"" if self._began else self._held

    def add(self, chunk: bytes) -> bytes:
        """The output in the chunk, except for a tail that may be the start of the end marker."""
        data = self._held + chunk if self._held else chunk
        if not self._began:
            _, found, rest = data.partition(self._head)
            if not found:
                self._held = data[-NOISE:]
                return b""
            self._began = True
            data = rest
        self._held = b""
        if self.code is not None:
            return data
        if ending := self._ending.search(data):
            self.code = int(ending[1])
            return data[: ending.start()] + data[ending.end() :]
        at = self._possible_end(data)
        self._held = data[at:]
        return data[:at]

    def _possible_end(self, data: bytes) -> int:
        at = max(0, len(data) - len(self._end) - 3)
        while (at := data.find(_RARE, at)) >= 0:
            if self._end.startswith(data[at : at + len(self._end)]):
                return at
            at += 1
        return len(data)


class Framed:
    """Both streams of a session, unframed on their way to a sink."""

    def __init__(self, sink: OutputSink, nonce: bytes) -> None:
        self._frames = {"stdout": Frame(nonce), "stderr": Frame(nonce)}
        self._sink = sink

    @property
    def code(self) -> int | None:
        """The code at the end of the streams, once both have ended."""
        codes = [frame.code for frame in self._frames.values()]
        return codes[0] if None not in codes else None

    @property
    def noise(self) -> bytes:
        """Standard error, if no frame has started there."""
        return self._frames["stderr"].noise

    @property
    def due(self) -> float:
        return self._sink.due

    def add(self, stream: str, chunk: bytes) -> None:
        if output := self._frames[stream].add(chunk):
            self._sink.add(stream, output)

    async def flush(self, now: float, *, final: bool = False) -> None:
        await self._sink.flush(now, final=final)

    def close(self) -> None:
        self._sink.close()
