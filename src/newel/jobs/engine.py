"""The port of a job engine: what is submitted is done, and what happened stays known.

A *job* is one run: a chat's turn, an agent's contract. It waits in a *queue*; of one queue only one job runs at a
time, the oldest first. Whoever claims it holds a *lease* and appends *events* to the job's journal; the state of a run
is the fold of its events, and nothing else is kept. Sequence numbers count from 1 within a job.

    submit → queued → claim → running → finish → done | failed | waiting | asking
                 ↑                │  the worker died, or retry_at
                 └────────────────┘
    cancel ends a job that is queued at once, and makes the next append or renew of one that runs say so. Both a job that is
``waiting`` and one that is ``asking`` wait for the user; while one is asking, the later jobs of its queue stay queued.

An engine knows nothing of what a job means: parameters and events are JSON objects, as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from newel.agent.errors import NewelError
from newel.agent.messages import Wire

JobState = Literal["queued", "running", "waiting", "asking", "done", "failed", "cancelled"]
FINAL: frozenset[JobState] = frozenset({"done", "failed", "cancelled"})
LIVE: Sequence[JobState] = ("queued", "running", "waiting", "asking")
"""The states of jobs that have not ended."""


class Job(Wire, frozen=True, kw_only=True):
    """A job as it stands. ``attempts`` counts the claims, ``seq`` is the number of its last event, ``reason`` says in
    words why it ended or waits. Times are ISO 8601 in UTC.
    """

    id: str
    kind: str
    queue: str
    params: bytes
    state: JobState
    attempts: int
    seq: int
    created: str
    updated: str
    reason: str = ""


class Lease(Wire, frozen=True, kw_only=True):
    """The right to carry out a job, and to append to its journal. ``attempt`` is 1 the first time; more means that an
    earlier holder is gone, and the journal says how far it came. ``seq`` is the number of the last event.
    """

    job: str
    kind: str
    queue: str
    params: bytes
    attempt: int
    seq: int
    worker: str


class JournalEntry(Wire, frozen=True, kw_only=True):
    """One entry of a journal; ``data`` is a JSON object."""

    job: str
    seq: int
    data: bytes


class JobOutcome(Wire, frozen=True, kw_only=True):
    """How a worker leaves a job. ``retry`` puts it back into its queue for ``delay`` seconds from now. ``waiting`` and
    ``asking`` are for a person, until the job is submitted again or cancelled; ``asking`` holds the queue until then.
    """

    state: Literal["done", "failed", "waiting", "asking", "retry"]
    reason: str = ""
    delay: float = 0.0


class EngineError(NewelError):
    """The engine cannot work: its folder cannot be used, or the disk is full."""


class LeaseLost(NewelError, code="lost"):
    """The lease is no longer this worker's: another one goes on with the job. Stop, and touch nothing."""


class JobCancelled(NewelError, code="cancelled"):
    """Somebody cancelled the job; ``str(error)`` is their reason."""


class Engine(Protocol):
    """Keeps jobs. When a method returns, what it did is as durable as the engine makes anything."""

    async def submit(self, kind: str, params: bytes, *, queue: str, key: str | None = None) -> str:
        """Put a job into a queue; returns its id. A ``key`` that was used before returns the job of then and changes
        nothing: so whoever is not sure may ask again.
        """
        ...

    async def claim(
        self, free: int, worker: str, *, queues: Sequence[str] | None = None, wait: float = 0.0
    ) -> list[Lease]:
        """Take up to ``free`` jobs that may run now, of these queues or of all; waits up to ``wait`` seconds for one."""
        ...

    async def append(self, lease: Lease, events: Sequence[bytes], *, expect_seq: int) -> int:
        """Add to the journal, all or nothing; returns the number of the last event. ``expect_seq`` is the number of the
        event before. Raises ``LeaseLost``, also when ``expect_seq`` is not what the journal has, and ``JobCancelled``.
        """
        ...

    async def renew(self, leases: Sequence[Lease]) -> set[str]:
        """Keep the leases; returns the jobs whose lease is lost or which were cancelled."""
        ...

    async def finish(self, lease: Lease, outcome: JobOutcome) -> None:
        """Give the job up. Raises ``LeaseLost``."""
        ...

    async def cancel(self, job: str, reason: str) -> bool:
        """End a job that has not ended; False if it had."""
        ...

    async def set_aside(self, jobs: Sequence[str], reason: str) -> None:
        """Have those of some jobs that are queued be ``waiting``, as if a worker had left them so."""
        ...

    async def annotate(
        self, job: str, events: Sequence[bytes], *, expect_seq: int, outcome: JobOutcome | None = None
    ) -> int:
        """Add to the journal of a job that waits for a person or has ended, which nobody holds a lease of: what was decided
        meanwhile. ``outcome`` ends, at the same time, one that waits. As ``append`` otherwise; raises ``LeaseLost`` also while
        the job is queued or runs.
        """
        ...

    async def purge(self, job: str) -> bool:
        """Forget a job that has ended, with its journal and its key; False if it has not, or there is none."""
        ...

    async def read(
        self, job: str, after_seq: int = 0, *, limit: int = 1000, wait: float = 0.0
    ) -> list[JournalEntry]:
        """The events after a number, in order. With ``wait``, up to that many seconds for the next one; an empty list
        is also the answer at once when the job has ended.
        """
        ...

    async def get(self, job: str) -> Job | None:
        """A job as it stands."""
        ...

    async def released(self, job: str, *, wait: float) -> bool:
        """Wait up to ``wait`` seconds until no worker holds a lease of the job. Returns whether that is so."""
        ...

    async def find(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        states: Sequence[JobState] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        """The jobs that fit, the newest first."""
        ...

    async def aclose(self) -> None:
        """Let go of everything; running jobs stay running, for whoever opens the engine next."""
        ...
