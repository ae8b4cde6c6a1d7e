"""A log of state that belongs to no run, stored as the journal of a job that never runs and never ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

import anyio
import msgspec

from newel.jobs.engine import Engine, EngineError, Lease

T = TypeVar("T")


class StateLog(Generic[T]):
    """Appends entries and applies each once it is durable. Use ``open``."""

    def __init__(self, engine: Engine, lease: Lease, apply: Callable[[T], None]) -> None:
        self._engine = engine
        self._lease = lease
        self._apply = apply
        self._seq = 0
        self._lock = anyio.Lock()

    @classmethod
    async def open(
        cls, engine: Engine, name: str, decode: Callable[[bytes], T], apply: Callable[[T], None], *, what: str
    ) -> Self:
        """The log of that name, with its entries applied. Call this before a worker claims jobs of the engine. Raises
        ``EngineError`` if it is already open; ``what`` describes it in the message.
        """
        await engine.submit(name, b"{}", queue=name, key=name)
        leases = await engine.claim(1, name, queues=[name])
        if not leases:
            raise EngineError(f"{what} of this folder are open in another workbench.")
        log = cls(engine, leases[0], apply)
        while page := await engine.read(log._lease.job, log._seq):
            for entry in page:
                apply(decode(entry.data))
            log._seq = page[-1].seq
        return log

    async def append(self, entry: T) -> None:
        # A cancelled caller must not leave the journal and its number apart.
        with anyio.CancelScope(shield=True):
            async with self._lock:
                data = [msgspec.json.encode(entry)]
                self._seq = await self._engine.append(self._lease, data, expect_seq=self._seq)
                self._apply(entry)
