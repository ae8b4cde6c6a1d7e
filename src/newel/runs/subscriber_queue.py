"""A subscriber's bounded queue of events, which joins adjacent deltas of the same text."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

import anyio
import msgspec

from newel.agent.events import MessageUpdate, ToolCallDelta, ToolExecutionUpdate
from newel.runs.models import LiveSnapshot, SequencedEvent
from newel.runs.run_events import RunEvent


def delta_of(event: RunEvent) -> tuple[Hashable, str]:
    """The text that an event extends, and by which characters; None and empty for an event that is no delta."""
    match event:
        case MessageUpdate(message_id=message, assistant_message_event=delta):
            part = delta.index if isinstance(delta, ToolCallDelta) else type(delta)
            return (message, part), delta.delta
        case ToolExecutionUpdate(tool_call_id=call, delta=piece):
            return (call, ToolExecutionUpdate), piece
        case _:
            return None, ""


class SubscriberQueue:
    """Events on their way to one subscriber. One that is too slow ``overflowed``: its queue is empty, and takes nothing until
    it is restarted. ``capacity`` counts events, joined ones included.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.overflowed = True
        self._pending: deque[tuple[SequencedEvent, Hashable, list[str]]] = deque()
        self._size = 0
        self._changed = anyio.Event()

    def restart(self) -> None:
        """Drop what is pending, and take events again."""
        self._clear()
        self.overflowed = False

    def put(self, item: SequencedEvent, text: Hashable, piece: str) -> None:
        """Add an event; ``text`` and ``piece`` are its ``delta_of``."""
        if self.overflowed:
            return
        self._size += 1
        if self._size > self._capacity:
            self._clear()
            self.overflowed = True
        elif text is not None and self._pending and self._pending[-1][1] == text:
            self._pending[-1][2].append(piece)
        else:
            self._pending.append((item, text, [piece]))
        self._changed.set()

    def pop(self) -> SequencedEvent | None:
        """The next event, None if none is pending."""
        if not self._pending:
            return None
        item, _, pieces = self._pending.popleft()
        self._size -= len(pieces)
        return item if len(pieces) == 1 else _joined(item, "".join(pieces))

    def wake(self) -> None:
        self._changed.set()

    async def changed(self) -> None:
        """Wait until something was put in, or ``wake`` was called, since the last time."""
        await self._changed.wait()
        self._changed = anyio.Event()

    def _clear(self) -> None:
        self._pending.clear()
        self._size = 0


def _joined(item: SequencedEvent, text: str) -> SequencedEvent:
    """A delta with the text of all those that it was joined with."""
    event: RunEvent | LiveSnapshot = item.event
    match event:
        case MessageUpdate(assistant_message_event=delta):
            delta = msgspec.structs.replace(delta, delta=text)
            event = msgspec.structs.replace(event, assistant_message_event=delta)
        case ToolExecutionUpdate():
            event = msgspec.structs.replace(event, delta=text)
        case _:
            pass
    return msgspec.structs.replace(item, event=event)
