"""What waits for one reader of a run: a bounded buffer of events, adjacent deltas of the same thing as one."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

import anyio
import msgspec

from newel.agent.events import MessageUpdate, TextDelta, ThinkingDelta, ToolCallDelta, ToolExecutionUpdate
from newel.runs.run_events import RunEvent


class SequencedEvent(msgspec.Struct, frozen=True):
    """An event and its number; a fleeting event has the number of the lasting one before it."""

    seq: int
    event: RunEvent


class PublishedEvent:
    """An event as it goes to all readers: ``key`` names what it adds ``piece`` to, None if it is no delta."""

    __slots__ = ("event", "key", "piece", "seq")

    def __init__(self, seq: int, event: RunEvent) -> None:
        self.seq = seq
        self.event = event
        self.key: Hashable = None
        self.piece = ""
        match event:
            case MessageUpdate(message_id=message, assistant_message_event=delta):
                self.piece = delta.delta
                match delta:
                    case TextDelta() | ThinkingDelta():
                        self.key = (message, type(delta))
                    case ToolCallDelta(index=index):
                        self.key = (message, index)
            case ToolExecutionUpdate(tool_call_id=call, delta=piece):
                self.key, self.piece = (call, type(event)), piece
            case _:
                pass

    def extended(self, pieces: list[str]) -> SequencedEvent:
        """With these pieces in place of its own."""
        event = self.event
        match event:
            case MessageUpdate(assistant_message_event=delta) if len(pieces) > 1:
                delta = msgspec.structs.replace(delta, delta="".join(pieces))
                event = msgspec.structs.replace(event, assistant_message_event=delta)
            case ToolExecutionUpdate() if len(pieces) > 1:
                event = msgspec.structs.replace(event, delta="".join(pieces))
            case _:
                pass
        return SequencedEvent(self.seq, event)


class SubscriberQueue:
    """Events on their way to one reader. One that is too slow is ``behind``: the buffer is empty then, and takes
    nothing until it is told to begin again. ``room`` is for that many events, those that were merged counted too.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self.behind = True
        self._waiting: deque[tuple[PublishedEvent, list[str]]] = deque()
        self._held = 0
        self._changed = anyio.Event()

    def begin(self) -> None:
        """Take what comes from now on, and nothing of before."""
        self._clear()
        self.behind = False

    def put(self, published: PublishedEvent) -> None:
        if self.behind:
            return
        self._held += 1
        if self._held > self._room:
            self._clear()
            self.behind = True
        elif published.key is not None and self._waiting and self._waiting[-1][0].key == published.key:
            self._waiting[-1][1].append(published.piece)
        else:
            self._waiting.append((published, [published.piece]))
        self._changed.set()

    def take(self) -> SequencedEvent | None:
        """The next event, None if there is none yet."""
        if not self._waiting:
            return None
        published, pieces = self._waiting.popleft()
        self._held -= len(pieces)
        return published.extended(pieces)

    def wake(self) -> None:
        self._changed.set()

    async def changed(self) -> None:
        """Wait until something was put in, or ``wake`` was called, since the last time."""
        await self._changed.wait()
        self._changed = anyio.Event()

    def _clear(self) -> None:
        self._waiting.clear()
        self._held = 0
