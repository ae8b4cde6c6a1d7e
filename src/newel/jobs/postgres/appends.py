"""Appends that arrive during a transaction share the next one: it costs little more than one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio

from newel.jobs.engine import EngineError
from newel.jobs.postgres.database import Connection, Database
from newel.jobs.postgres.failures import DatabaseUnavailable

PATIENCE_S: Final = 1.0
MAX_BATCH: Final = 200
MAX_BATCH_BYTES: Final = 8 << 20

_APPEND: Final = "SELECT * FROM newel.append($1, $2::text[]::uuid[], $3, $4, $5, $6, $7)"


class PendingAppend:
    """Events of one job, and then what has become of them: ``seq`` and ``cancelled`` as ``newel.append`` returns them."""

    def __init__(self, job: str, run: str, events: Sequence[bytes], expect_seq: int, *, extend: bool) -> None:
        self.job = job
        self.run = run
        self.events = events
        self.expect_seq = expect_seq
        self.extend = extend
        self.done = anyio.Event()
        self.seq: int | None = None
        self.cancelled: str | None = None
        self.error: EngineError | None = None

    @property
    def size(self) -> int:
        return sum(map(len, self.events))


class Appends:
    """Called with an append, returns when it is durable or refused. Raises ``EngineError``."""

    def __init__(self, database: Database, lease: int) -> None:
        self._database = database
        self._lease = lease
        self._pending: list[PendingAppend] = []
        self._wanted = anyio.Event()

    async def __call__(self, append: PendingAppend) -> None:
        self._pending.append(append)
        self._wanted.set()
        await append.done.wait()
        if append.error is not None:
            raise append.error

    async def run(self) -> None:
        """Write them, until cancelled."""
        batch: list[PendingAppend] = []
        try:
            while True:
                await self._wanted.wait()
                self._wanted = anyio.Event()
                while self._pending:
                    batch = self._next_batch()
                    await self._write(batch)
        finally:
            for each in [*batch, *self._pending]:
                if not each.done.is_set():
                    each.error = EngineError(f"The engine {self._database.place} was closed.")
                    each.done.set()

    def _next_batch(self) -> list[PendingAppend]:
        batch: list[PendingAppend] = []
        size = 0
        while self._pending and len(batch) < MAX_BATCH and size < MAX_BATCH_BYTES:
            batch.append(self._pending.pop(0))
            size += batch[-1].size
        return batch

    async def _write(self, batch: Sequence[PendingAppend]) -> None:
        """In one transaction; if that fails, each in its own."""

        async def write(connection: Connection) -> None:
            rows = await connection.fetch(
                _APPEND,
                [each.job for each in batch],
                [each.run for each in batch],
                [each.extend for each in batch],
                [each.expect_seq for each in batch],
                [len(each.events) for each in batch],
                [event for each in batch for event in each.events],
                self._lease,
            )
            for entry, seq, cancelled in rows:
                batch[entry - 1].seq, batch[entry - 1].cancelled = seq, cancelled

        try:
            await self._database.call(write, patience=PATIENCE_S, within=self._lease)
        except EngineError as error:
            if len(batch) > 1 and not isinstance(error, DatabaseUnavailable):
                for each in batch:
                    await self._write([each])
                return
            for each in batch:
                each.error = error
        for each in batch:
            each.done.set()
