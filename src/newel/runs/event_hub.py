"""The event hub: the journal of a run, then its live events, for any number of subscribers.

    async with EventHub(engine) as hub:
        async with aclosing(hub.follow(run, after_seq=17)) as items:
            async for item in items:
                …

Every lasting event is delivered once and in order. Ephemeral ones are delivered as long as a subscriber keeps up; one that
came late or overflowed gets a ``LiveSnapshot`` instead, which replaces what it had of them.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import Self

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup

from newel.agent.events import (
    AgentEnd,
    MessageUpdate,
    ToolCallDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from newel.agent.loop import MessageAccumulator
from newel.concurrency import background_tasks
from newel.jobs.engine import FINAL, Engine, EngineError, Lease
from newel.runs.models import LiveSnapshot, SequencedEvent
from newel.runs.run_events import RunEvent, decode, encode, is_lasting

CAPACITY = 512
"""Events pending for one subscriber before it counts as overflowed."""
_PAGE = 1000
_RECHECK_S = 3600.0
"""After so many seconds without an event a run is looked up again."""


def delta_of(event: RunEvent) -> tuple[Hashable, str]:
    """The text that an event extends, and by which characters; None and empty for an event that is no delta."""
    match event:
        case MessageUpdate(message_id=message, assistant_message_event=delta):
            part = delta.index if isinstance(delta, ToolCallDelta) else type(delta)
            return (message, part), delta.delta
        case ToolExecutionUpdate(tool_call_id=call, delta=piece, event=None):
            return (call, ToolExecutionUpdate), piece
        case _:
            return None, ""


class SubscriberQueue:
    """Events on their way to one subscriber. One that is too slow ``overflowed``: its queue is empty, and accepts no event
    until it is restarted. ``capacity`` counts events, joined ones included.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.overflowed = True
        self._pending: deque[tuple[SequencedEvent, Hashable, list[str]]] = deque()
        self._size = 0
        self._changed = anyio.Event()

    def restart(self) -> None:
        """Drop the pending events, and accept new ones."""
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
        return item if len(pieces) == 1 else _join_deltas(item, "".join(pieces))

    def wake(self) -> None:
        self._changed.set()

    async def wait_for_change(self) -> None:
        """Wait until something was put in, or ``wake`` was called, since the last time."""
        await self._changed.wait()
        self._changed = anyio.Event()

    def _clear(self) -> None:
        self._pending.clear()
        self._size = 0


def _join_deltas(item: SequencedEvent, text: str) -> SequencedEvent:
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


class _LiveRun:
    """A run that is published or followed here. ``seq`` is the number of the last lasting event published, -1 before."""

    def __init__(self) -> None:
        self.seq = -1
        self.live = LiveState()
        self.subscribers: set[SubscriberQueue] = set()
        self.ended = False
        self.failure: EngineError | None = None
        self.watching = anyio.CancelScope()


class EventHub(anyio.AsyncContextManagerMixin):
    """Publishes the events of runs. Works within ``async with``; its subscribers must be gone before that ends.

    The live state of a run is kept from its first event or subscriber until it has ended and has no subscriber left.
    """

    def __init__(self, engine: Engine, *, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._engine = engine
        self._runs: dict[str, _LiveRun] = {}
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with background_tasks() as self._tasks:
            yield self

    def publish(self, run: str, seq: int, event: RunEvent) -> None:
        """Deliver an event to the subscribers. Publish every lasting event once the journal has it as ``seq``; an ephemeral one
        at once, with the ``seq`` of the last lasting one.
        """
        state = self._state(run)
        state.seq = seq
        state.live.apply(event)
        item, (text, piece) = SequencedEvent(run, seq, event), delta_of(event)
        for subscriber in state.subscribers:
            subscriber.put(item, text, piece)

    def live(self, run: str) -> tuple[int, LiveSnapshot | None]:
        """The number of the last event published of a run, 0 before, and what the journal lacks after it."""
        state = self._runs.get(run)
        return (0, None) if state is None else (max(state.seq, 0), state.live.snapshot())

    async def follow(self, run: str, after_seq: int = 0) -> AsyncGenerator[SequencedEvent]:
        """The events of a run after number ``after_seq``; ends when the job has ended and all of them were delivered.

        Close it when you leave early (``contextlib.aclosing``). Raises ``EngineError``.
        """
        state, queue = self._state(run), SubscriberQueue(self._capacity)
        state.subscribers.add(queue)
        try:
            while True:
                # A subscriber that keeps overflowing must not block the others.
                await anyio.lowlevel.checkpoint()
                # Nothing may be awaited here: the journal is read up to where the queue and the snapshot begin.
                queue.restart()
                last, is_ended, snapshot = state.seq, state.ended, state.live.snapshot()
                # If the journal is ahead of the published events, it is read to its end; the next event ends that state.
                live = last >= after_seq and not is_ended
                while page := await self._page(run, after_seq, last if live else None):
                    for entry in page:
                        after_seq = entry.seq
                        yield entry
                if is_ended:
                    break
                if live and snapshot is not None:
                    yield SequencedEvent(run, after_seq, snapshot)
                while live and (item := await _next(state, queue)) is not None:
                    after_seq = item.seq
                    yield item
                if not live and not state.ended:
                    await queue.wait_for_change()
        finally:
            self._leave(run, state, queue)
        if state.failure is not None:
            raise state.failure

    async def _page(self, run: str, after_seq: int, last: int | None) -> list[SequencedEvent]:
        """The next events of the journal, up to a number or to its end."""
        limit = _PAGE if last is None else min(_PAGE, last - after_seq)
        if limit <= 0:
            return []
        return [
            SequencedEvent(run, entry.seq, decode(entry.data))
            for entry in await self._engine.read(run, after_seq, limit=limit)
        ]

    def _state(self, run: str) -> _LiveRun:
        if run not in self._runs:
            if self._tasks is None:
                raise RuntimeError("An event hub works within `async with EventHub(engine) as hub`.")
            state = self._runs[run] = _LiveRun()
            self._tasks.start_soon(self._watch, run, state)
        return self._runs[run]

    async def _watch(self, run: str, state: _LiveRun) -> None:
        """Wait for the end of a run."""
        with state.watching:
            try:
                while (job := await self._engine.get(run)) is not None and job.state not in FINAL:
                    # No event will have such a number: this returns when the job has ended.
                    await self._engine.read(run, sys.maxsize, wait=_RECHECK_S)
            except EngineError as error:
                state.failure = error
            state.ended = True
            for subscriber in state.subscribers:
                subscriber.wake()
            if not state.subscribers:
                self._drop(run, state)

    def _leave(self, run: str, state: _LiveRun, queue: SubscriberQueue) -> None:
        state.subscribers.discard(queue)
        if not state.subscribers and (state.ended or state.seq < 0):
            self._drop(run, state)

    def _drop(self, run: str, state: _LiveRun) -> None:
        if self._runs.get(run) is state:
            del self._runs[run]
            state.watching.cancel()


async def _next(state: _LiveRun, queue: SubscriberQueue) -> SequencedEvent | None:
    """The next event; None if the subscriber overflowed or the run has ended."""
    while (item := queue.pop()) is None and not queue.overflowed and not state.ended:
        await queue.wait_for_change()
    return item


FindPreceding = Callable[[RunEvent], Awaitable[Sequence[RunEvent]]]
"""The events that must be in the journal if an event is."""


OnAppended = Callable[[Sequence[RunEvent]], Awaitable[None]]
"""Told of events that are in the journal now. Raises nothing."""


async def _ignore(_: Sequence[RunEvent]) -> None:
    pass


async def _none_precede(_: RunEvent) -> Sequence[RunEvent]:
    return ()


class JournalWriter:
    """Writes the events of a lease to the journal, then publishes them: one at a time, in their order. Use it for all events
    of the lease. ``find_preceding`` is asked about each lasting event, and what it returns is written with it, at once; ``on_appended``
    gets both afterwards. Raises ``LeaseLost``, ``JobCancelled`` and ``EngineError``.
    """

    def __init__(
        self,
        engine: Engine,
        lease: Lease,
        hub: EventHub,
        *,
        find_preceding: FindPreceding = _none_precede,
        on_appended: OnAppended = _ignore,
    ) -> None:
        self._engine = engine
        self._lease = lease
        self._hub = hub
        self._find_preceding = find_preceding
        self._on_appended = on_appended
        self._lock = anyio.Lock()
        self.run = lease.job
        self.seq = lease.seq
        """The number of the last event in the journal."""
        self.ended = False
        """Whether the agent's last event was recorded."""

    async def __call__(self, event: RunEvent) -> None:
        if not is_lasting(event):
            self._hub.publish(self.run, self.seq, event)
            return
        async with self._lock:
            events = [*await self._find_preceding(event), event]
            data = [encode(each) for each in events]
            # An engine may leave open whether a cancelled write happened; here it must be known.
            with anyio.CancelScope(shield=True):
                last = await self._engine.append(self._lease, data, expect_seq=self.seq)
                for seq, each in enumerate(events, last + 1 - len(events)):
                    self._hub.publish(self.run, seq, each)
                self.seq = last
            await self._on_appended(events)
            self.ended |= isinstance(event, AgentEnd)
