"""The live state of a run, which no journal has: the message being written and the output of running tools."""

from __future__ import annotations

from collections import deque

from newel.agent.events import (
    AgentEnd,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from newel.agent.partial_message import MessageAccumulator
from newel.runs.models import LiveSnapshot
from newel.runs.run_events import RunEvent

TAIL = 64 * 1024
"""Characters of a running tool's output that are kept for late subscribers."""
_MAX_PIECES = 1024


class OutputTail:
    """The last characters of a growing text."""

    def __init__(self, limit: int = TAIL) -> None:
        self._limit = limit
        self._pieces: deque[str] = deque()
        self._size = 0

    def add(self, piece: str) -> None:
        piece = piece[-self._limit :]
        self._pieces.append(piece)
        self._size += len(piece)
        while self._size - len(self._pieces[0]) >= self._limit:
            self._size -= len(self._pieces.popleft())
        if len(self._pieces) > _MAX_PIECES:  # a string costs more than the few characters in it
            self._pieces = deque(["".join(self._pieces)])

    def text(self) -> str:
        return "".join(self._pieces)[-self._limit :]


class LiveState:
    """The part of a run's events that a subscriber needs to begin in their midst."""

    def __init__(self) -> None:
        self._partial = MessageAccumulator()
        self._outputs: dict[str, OutputTail] = {}
        self._snapshot: LiveSnapshot | None = None

    def apply(self, event: RunEvent) -> None:
        self._snapshot = None
        self._partial.fold(event)
        match event:
            case ToolExecutionStart():
                self._outputs[event.tool_call_id] = OutputTail()
            case ToolExecutionUpdate() if event.tool_call_id in self._outputs:
                self._outputs[event.tool_call_id].add(event.delta)
            case ToolExecutionEnd():
                self._outputs.pop(event.tool_call_id, None)
            case AgentEnd():
                self._partial = MessageAccumulator()
                self._outputs.clear()
            case _:
                pass

    def snapshot(self) -> LiveSnapshot | None:
        """What the journal lacks; None if it has everything. Subscribers share it."""
        if self._snapshot is None and ((message := self._partial.message()) or self._outputs):
            outputs = {call: tail.text() for call, tail in self._outputs.items()}
            self._snapshot = LiveSnapshot(message=message, outputs=outputs)
        return self._snapshot
