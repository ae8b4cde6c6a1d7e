"""Runs, read as they happen: what the journal says, then what comes, for any number of readers.

    async with Feed(engine) as feed:
        async with aclosing(feed.follow(run, after_seq=17)) as items:
            async for item in items:
                …

Every lasting event is given once and in order. Fleeting ones are given as far as a reader keeps up; one that came late
or fell behind gets ``LiveSnapshot`` in their place, which replaces what it had of them.
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
from newel.runs.models import LiveSnapshot
from newel.runs.run_events import RunEvent, decode, encode, is_lasting
from newel.runs.subscriber_queue import PublishedEvent, SequencedEvent, SubscriberQueue

Item = SequencedEvent | LiveSnapshot

ROOM = 512
_PAGE = 1000
_LONG = 3600.0
"""Seconds after which a run is looked at again, although nothing was heard of its end."""


class _LiveRun:
    """A run that is published or read here. ``seq`` is the number of the last lasting event published, -1 before."""

    def __init__(self) -> None:
        self.seq = -1
        self.under_way = LiveState()
        self.readers: set[SubscriberQueue] = set()
        self.ended = False
        self.failure: EngineError | None = None
        self.watching = anyio.CancelScope()


class EventHub(anyio.AsyncContextManagerMixin):
    """What runs do, as it happens. Works within ``async with``; the readers must be gone before that ends.

    Of each run that is published or read, it keeps what is under way, until the run ends and nobody reads. ``room`` is
    how many events may wait for one reader before it counts as fallen behind.
    """

    def __init__(self, engine: Engine, *, room: int = ROOM) -> None:
        self._room = room
        self._engine = engine
        self._runs: dict[str, _LiveRun] = {}
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with background_tasks() as self._tasks:
            yield self

    def publish(self, run: str, seq: int, event: RunEvent) -> None:
        """Tell the readers. A lasting event comes when it stands in the journal as ``seq``, and none is left out;
        a fleeting one comes at once, with the ``seq`` of the last lasting one.
        """
        state = self._state(run)
        state.seq = seq
        state.under_way.fold(event)
        published = PublishedEvent(seq, event)
        for reader in state.readers:
            reader.put(published)

    async def follow(self, run: str, after_seq: int = 0) -> AsyncGenerator[Item]:
        """What happens in a run after an event that the reader has; ends when the job has ended and all is read.

        Close it when you leave early (``contextlib.aclosing``). Raises ``EngineError``.
        """
        state, reader = self._state(run), SubscriberQueue(self._room)
        state.readers.add(reader)
        try:
            while True:
                await anyio.lowlevel.checkpoint()  # one who comes back again and again holds up nobody
                # Nothing may be awaited here: the journal is read up to where what follows and what is under way begin.
                reader.begin()
                last, ended, so_far = state.seq, state.ended, state.under_way.so_far()
                # A journal that is ahead of what was published here is read to its end; what comes brings us back.
                live = last >= after_seq and not ended
                while page := await self._page(run, after_seq, last if live else None):
                    for entry in page:
                        after_seq = entry.seq
                        yield entry
                if ended:
                    break
                if live and so_far is not None:
                    yield so_far
                while live and (item := await _next(state, reader)) is not None:
                    after_seq = item.seq
                    yield item
                if not live and not state.ended:
                    await reader.changed()
        finally:
            self._leave(run, state, reader)
        if state.failure is not None:
            raise state.failure

    async def _page(self, run: str, after_seq: int, last: int | None) -> list[SequencedEvent]:
        """The next events of the journal, up to a number or to its end."""
        limit = _PAGE if last is None else min(_PAGE, last - after_seq)
        if limit <= 0:
            return []
        return [
            SequencedEvent(entry.seq, decode(entry.data))
            for entry in await self._engine.read(run, after_seq, limit=limit)
        ]

    def _state(self, run: str) -> _LiveRun:
        if run not in self._runs:
            if self._tasks is None:
                raise RuntimeError("A feed works within `async with Feed(engine) as feed`.")
            state = self._runs[run] = _LiveRun()
            self._tasks.start_soon(self._watch, run, state)
        return self._runs[run]

    async def _watch(self, run: str, state: _LiveRun) -> None:
        """Wait for the end of a run."""
        with state.watching:
            try:
                while (job := await self._engine.get(run)) is not None and job.state not in FINAL:
                    # No event will have such a number: this returns when there will be none at all.
                    await self._engine.read(run, sys.maxsize, wait=_LONG)
            except EngineError as error:
                state.failure = error
            state.ended = True
            for reader in state.readers:
                reader.wake()
            if not state.readers:
                self._drop(run, state)

    def _leave(self, run: str, state: _LiveRun, reader: SubscriberQueue) -> None:
        state.readers.discard(reader)
        if not state.readers and (state.ended or state.seq < 0):
            self._drop(run, state)

    def _drop(self, run: str, state: _LiveRun) -> None:
        if self._runs.get(run) is state:
            del self._runs[run]
            state.watching.cancel()


async def _next(state: _LiveRun, reader: SubscriberQueue) -> SequencedEvent | None:
    """What comes next; None if the reader has fallen behind, or nothing comes any more."""
    while (item := reader.take()) is None and not reader.behind and not state.ended:
        await reader.changed()
    return item


class JournalWriter:
    """What happens in a run of ours: into the journal first, then to the readers. One event at a time, in the order
    they come. Use it for all events of the lease; raises ``LeaseLost``, ``JobCancelled`` and ``EngineError``.
    """

    def __init__(self, engine: Engine, lease: Lease, feed: EventHub) -> None:
        self._engine = engine
        self._lease = lease
        self._feed = feed
        self._turn = anyio.Lock()
        self.run = lease.job
        self.seq = lease.seq
        """The number of the last event in the journal."""
        self.ended = False
        """Whether the agent's last event was recorded."""

    async def __call__(self, event: RunEvent) -> None:
        if not is_lasting(event):
            self._feed.publish(self.run, self.seq, event)
            return
        async with self._turn:
            # An engine may leave open whether a write came to pass when its caller is cancelled; here it must be known.
            with anyio.CancelScope(shield=True):
                self.seq = await self._engine.append(self._lease, [encode(event)], expect_seq=self.seq)
            self._feed.publish(self.run, self.seq, event)
            self.ended |= isinstance(event, AgentEnd)
