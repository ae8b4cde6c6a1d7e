"""What a fleet needs of its engine beyond the port of every engine: placement by labels, and the workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from newel.jobs.engine import Engine
from newel.jobs.placement import Placement, WorkerInfo


class FleetEngine(Engine, Protocol):
    """An engine that many machines share. Opened by a worker, it claims the jobs whose labels the worker has."""

    async def submit(
        self, kind: str, params: bytes, *, queue: str, key: str | None = None, labels: Sequence[str] = ()
    ) -> str:
        """As ``Engine.submit``, for workers that have all ``labels``."""
        ...

    async def jobs_of(self, prefix: str, *, limit: int = 100_000) -> list[Placement]:
        """The jobs whose key begins so, the oldest first."""
        ...

    async def workers(self) -> list[WorkerInfo]:
        """The workers that were heard of within the last day, by name."""
        ...

    async def drain(self, worker: str) -> bool:
        """Have a worker claim no more jobs; False if there is none of that name."""
        ...

    async def is_draining(self) -> bool:
        """Whether the worker that opened this engine is to claim no more jobs."""
        ...
