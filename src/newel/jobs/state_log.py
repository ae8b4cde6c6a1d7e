"""What a workbench keeps that belongs to no run: the fold of the journal of one job that no worker carries out and that
never ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

import anyio
import msgspec

from newel.jobs.engine import Engine, EngineError, Lease

T = TypeVar("T")


class StateLog(Generic[T]):
    """Takes entries, and folds each when it is durable. Use ``open``."""

    def __init__(self, engine: Engine, lease: Lease, fold: Callable[[T], None]) -> None:
        self._engine = engine
        self._lease = lease
        self._fold = fold
        self._seq = 0
        self._lock = anyio.Lock()

    @classmethod
    async def open(
        cls, engine: Engine, name: str, decode: Callable[[bytes], T], fold: Callable[[T], None], *, what: str
    ) -> Self:
        """The journal of that name, whose entries so far are folded; to be called before a worker takes jobs of the engine.
        Raises ``EngineError`` if another one in this process has it: ``what`` names it in words.
        """
        await engine.submit(name, b"{}", queue=name, key=name)
        leases = await engine.claim(1, name, queues=[name])
        if not leases:
            raise EngineError(f"{what} of this folder are open in another workbench.")
        journal = cls(engine, leases[0], fold)
        while page := await engine.read(journal._lease.job, journal._seq):
            for entry in page:
                fold(decode(entry.data))
            journal._seq = page[-1].seq
        return journal

    async def append(self, entry: T) -> None:
        # A caller that goes away must not leave the journal and its number apart.
        with anyio.CancelScope(shield=True):
            async with self._lock:
                data = [msgspec.json.encode(entry)]
                self._seq = await self._engine.append(self._lease, data, expect_seq=self._seq)
                self._fold(entry)
