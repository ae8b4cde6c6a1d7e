"""What a fleet needs of its engine beyond the port of every engine: placement by labels, and the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from newel.jobs.engine import Engine, JobState, Lease
from newel.jobs.placement import FleetSummary, JobPage, JobPlace, LiveData, Placement, Spending, WorkerInfo


class Budgets(Protocol):
    """What some jobs spend together, and how many requests a model server gets at a time. Each method may be repeated."""

    async def set(self, name: str, *, max_cost: float | None, max_tokens: int | None) -> None:
        """Create a budget; one that exists stays as it is."""
        ...

    async def spending(self, name: str) -> Spending | None:
        """None without a budget of that name."""
        ...

    async def begin(self, request: str, server: str, slots: int | None) -> bool:
        """Whether a request, by an id of its own, may be made now: a server gets at most ``slots`` at a time."""
        ...

    async def end(self, request: str, name: str, *, cost: float, tokens: int) -> None:
        """A request that was begun has ended; what it has cost counts for a budget."""
        ...


class Fleets(Protocol):
    """The jobs that were submitted together, with keys ``FLEET/NUMBER``. Prefixes are taken literally; the empty one is that of every
    id.
    """

    async def begin(self, fleet: str, kind: str, jobs: int) -> None:
        """Say how many jobs a fleet will have, before anything is stored or submitted for it."""
        ...

    async def list(self, *, kind: str | None = None, prefix: str = "", limit: int = 20) -> list[FleetSummary]:
        """The fleets that have jobs, the newest first."""
        ...

    async def count(self, *, kind: str | None = None) -> int:
        """How many ``list`` has without a limit."""
        ...

    async def jobs(
        self,
        fleet: str | None = None,
        *,
        kind: str | None = None,
        states: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[Placement]:
        """The newest ``limit`` jobs of a fleet, or of all, the oldest of them first. ``states`` are those of ``Placement.state``."""
        ...

    async def count_jobs(
        self, fleet: str | None = None, *, kind: str | None = None, states: Sequence[str] | None = None
    ) -> int:
        """How many ``jobs`` has without a limit."""
        ...

    async def find_jobs(self, prefix: str, *, kind: str | None = None, limit: int = 2) -> list[Placement]:
        """Up to ``limit`` jobs whose id begins so, of any fleet or of none."""
        ...


class Retention(Protocol):
    """Deletes jobs that have ended, with their journals, keys and, with the last job of a fleet, its budget. A running job is left alone.
    What is deleted is noted, so that its snapshots are removed from the store; see ``newel.fleet.retention``.
    """

    async def delete(self, jobs: Sequence[str]) -> int:
        """Delete those of the jobs that have ended; returns how many."""
        ...

    async def count_ended(self, age: float) -> int:
        """How many jobs ``delete_ended`` would delete."""
        ...

    async def delete_ended(self, age: float) -> int:
        """Delete the jobs that have ended more than ``age`` seconds ago, those of a fleet once all of it has; returns how many."""
        ...

    async def expire(self, days: int) -> int:
        """As ``delete_ended``, with the rights of a worker; a day at least."""
        ...

    async def claim_removals(self, limit: int = ...) -> list[str]:
        """Names whose snapshots the caller is to remove from the store; no other caller gets them for ten minutes."""
        ...

    async def finish_removals(self, names: Sequence[str]) -> None:
        """Say that these have been removed."""
        ...

    async def places(self, jobs: Sequence[str]) -> dict[str, JobPlace]:
        """Where jobs are, by their ids, without those that the database does not have."""
        ...


class LiveUpdates(Protocol):
    """What the journals of running jobs lack, passed on to those who read them on other machines. Some of it may be lost."""

    async def write(self, lease: Lease, read: Callable[[], LiveData]) -> None:
        """While somebody reads the journal of the lease's job, pass on what ``read`` returns whenever it has changed; until cancelled."""
        ...

    async def read(
        self,
        job: str,
        after_seq: int = 0,
        *,
        version: int = 0,
        updated: str = "",
        limit: int = 1000,
        wait: float = 0.0,
    ) -> JobPage | None:
        """The next page of a journal. If it has no events, and ``version`` and ``updated`` are unchanged, wait up to ``wait`` seconds for a
        change, unless the job has ended. None for a job that does not exist.
        """
        ...


class FleetEngine(Engine, Protocol):
    """An engine that many machines share. Opened by a worker, it claims the jobs whose labels the worker has."""

    @property
    def budgets(self) -> Budgets: ...

    @property
    def fleets(self) -> Fleets: ...

    @property
    def retention(self) -> Retention: ...

    @property
    def live(self) -> LiveUpdates: ...

    async def submit(
        self, kind: str, params: bytes, *, queue: str, key: str | None = None, labels: Sequence[str] = ()
    ) -> str:
        """As ``Engine.submit``, for workers that have all ``labels``."""
        ...

    async def states(self, jobs: Sequence[str]) -> dict[str, JobState]:
        """The states of jobs, by their ids; without those that do not exist."""
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
