"""What is under way in a run and stands in no journal: the message being written, the output of tools that run."""

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
"""Characters of a running tool's output that are kept for readers who come late."""
_MAX_PIECES = 1024


class OutputTail:
    """The end of a text that grows."""

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
    """The fold of a run's events, as far as it is needed to begin reading in the midst of them."""

    def __init__(self) -> None:
        self._partial = MessageAccumulator()
        self._outputs: dict[str, OutputTail] = {}
        self._told: LiveSnapshot | None = None

    def fold(self, event: RunEvent) -> None:
        self._told = None
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

    def so_far(self) -> LiveSnapshot | None:
        """What a reader who knows the journal does not know; None if there is nothing. Readers share it."""
        if self._told is None and ((message := self._partial.message()) or self._outputs):
            outputs = {call: tail.text() for call, tail in self._outputs.items()}
            self._told = LiveSnapshot(message=message, outputs=outputs)
        return self._told
