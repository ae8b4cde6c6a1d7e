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
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Self

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from newel.agent.events import AgentEnd
from newel.concurrency import background_tasks
from newel.jobs.engine import FINAL, Engine, EngineError, Lease
from newel.runs.live_state import LiveState
from newel.runs.models import SequencedEvent
from newel.runs.run_events import RunEvent, decode, encode, is_lasting
from newel.runs.subscriber_queue import SubscriberQueue, delta_of

CAPACITY = 512
"""Events pending for one subscriber before it counts as overflowed."""
_PAGE = 1000
_RECHECK_S = 3600.0
"""After so many seconds without an event a run is looked up again."""


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

    The live state of a run is kept from its first event or subscriber until it has ended and nobody follows it.
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

    async def follow(self, run: str, after_seq: int = 0) -> AsyncGenerator[SequencedEvent]:
        """The events of a run after number ``after_seq``; ends when the job has ended and all of them were delivered.

        Close it when you leave early (``contextlib.aclosing``). Raises ``EngineError``.
        """
        state, queue = self._state(run), SubscriberQueue(self._capacity)
        state.subscribers.add(queue)
        try:
            while True:
                await (
                    anyio.lowlevel.checkpoint()
                )  # a subscriber that keeps overflowing must not block the others
                # Nothing may be awaited here: the journal is read up to where the queue and the snapshot begin.
                queue.restart()
                last, ended, snapshot = state.seq, state.ended, state.live.snapshot()
                # A journal that is ahead of what was published here is read to its end; the next event brings us back.
                live = last >= after_seq and not ended
                while page := await self._page(run, after_seq, last if live else None):
                    for entry in page:
                        after_seq = entry.seq
                        yield entry
                if ended:
                    break
                if live and snapshot is not None:
                    yield SequencedEvent(run, after_seq, snapshot)
                while live and (item := await _next(state, queue)) is not None:
                    after_seq = item.seq
                    yield item
                if not live and not state.ended:
                    await queue.changed()
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
        await queue.changed()
    return item


class JournalWriter:
    """Writes the events of a lease to the journal, then publishes them: one at a time, in their order. Use it for all events
    of the lease. Raises ``LeaseLost``, ``JobCancelled`` and ``EngineError``.
    """

    def __init__(self, engine: Engine, lease: Lease, hub: EventHub) -> None:
        self._engine = engine
        self._lease = lease
        self._hub = hub
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
            # An engine may leave open whether a cancelled write happened; here it must be known.
            with anyio.CancelScope(shield=True):
                self.seq = await self._engine.append(self._lease, [encode(event)], expect_seq=self.seq)
            self._hub.publish(self.run, self.seq, event)
            self.ended |= isinstance(event, AgentEnd)
