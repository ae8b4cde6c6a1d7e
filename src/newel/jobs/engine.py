"""The port of a job engine, which runs each submitted job and keeps a journal of it.

A *job* is one run: a chat's turn, an agent's contract, a review. Each *queue* runs one job at a time, the oldest first. A
worker that claims a job holds a *lease* and appends *events* to the job's journal. The state of a run is reduced from its
events; nothing else is stored. Sequence numbers start at 1 in each job.

    submit → queued → claim → running → finish → done | failed | waiting | asking
                 ↑                │  the worker died, or retry_at
                 └────────────────┘
``cancel`` ends a queued job at once; the next ``append`` or ``renew`` of a running job reports it. Jobs that are ``waiting``
or ``asking`` wait for the user; an asking job also blocks its queue.

Parameters and events are JSON objects, as bytes; the engine does not interpret them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, Protocol

from newel.agent.errors import NewelError
from newel.agent.messages import Wire

JobState = Literal["queued", "running", "waiting", "asking", "done", "failed", "cancelled"]
FINAL: frozenset[JobState] = frozenset({"done", "failed", "cancelled"})
LIVE: Sequence[JobState] = ("queued", "running", "waiting", "asking")
"""The states of jobs that have not ended."""

JOB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""An id of a job: it is the name of a folder on a worker, and a part of names in a store. Who submits a job to a database chooses its id,
so the database has the same rule, ``newel.is_job_id``.
"""


class Job(Wire, frozen=True, kw_only=True):
    """The state of a job. ``attempts`` counts its claims, ``seq`` is the number of its last event, ``reason`` says why it
    ended or waits. Times are ISO 8601 in UTC.
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
    """The right to run a job and to append to its journal. An ``attempt`` above 1 means that an earlier holder died; the
    journal says how far it came. ``seq`` is the number of the last event. ``token`` is the engine's own.
    """

    job: str
    kind: str
    queue: str
    params: bytes
    attempt: int
    seq: int
    worker: str
    token: str = ""


class JournalEntry(Wire, frozen=True, kw_only=True):
    """One entry of a journal; ``data`` is a JSON object."""

    job: str
    seq: int
    data: bytes


def is_job_id(text: str) -> bool:
    return JOB_ID.fullmatch(text) is not None


def not_a_job_id(text: str) -> str:
    """Words for a message about what is no id of a job. They have no control characters, whatever it is."""
    return f"{text[:200]!r} is not a job ID: use at most 100 letters, digits, - and _."


class JobOutcome(Wire, frozen=True, kw_only=True):
    """How a worker releases a job. ``retry`` queues it again after ``delay`` seconds. ``waiting`` and ``asking`` last until the
    job is submitted again or cancelled; ``asking`` blocks the queue until then. ``result`` is how the run ended, in the words of its kind,
    such as ``completed``: engines for many machines keep it for their lists.
    """

    state: Literal["done", "failed", "waiting", "asking", "retry"]
    reason: str = ""
    delay: float = 0.0
    result: str = ""


class EngineError(NewelError):
    """The engine's folder is unusable, or the disk is full."""


class LeaseLost(NewelError, code="lost"):
    """Another worker has taken over the job. Stop without changing anything."""


class JobCancelled(NewelError, code="cancelled"):
    """The job was cancelled; ``str(error)`` is the reason."""


class Engine(Protocol):
    """Stores and queues jobs. When a method returns, its change is durable."""

    async def submit(self, kind: str, params: bytes, *, queue: str, key: str | None = None) -> str:
        """Queue a job and return its id. With the ``key`` of an earlier job, queue that one again if it is waiting or asking,
        and return it; so a caller may safely retry.
        """
        ...

    async def claim(
        self, free: int, worker: str, *, queues: Sequence[str] | None = None, wait: float = 0.0
    ) -> list[Lease]:
        """Lease up to ``free`` runnable jobs of these queues, or of all; wait up to ``wait`` seconds for one."""
        ...

    async def append(self, lease: Lease, events: Sequence[bytes], *, expect_seq: int) -> int:
        """Add events atomically and return the number of the last one. ``expect_seq`` is the number of the event before.
        Raises ``LeaseLost``, also if ``expect_seq`` does not match, and ``JobCancelled``.
        """
        ...

    async def renew(self, leases: Sequence[Lease], *, wait: float = 0.0) -> set[str]:
        """Renew leases and return the jobs that are lost or cancelled. If there are none, return after ``wait`` seconds, or
        as soon as any job is cancelled.
        """
        ...

    async def finish(self, lease: Lease, outcome: JobOutcome) -> None:
        """Release a job. Raises ``LeaseLost``."""
        ...

    async def cancel(self, job: str, reason: str) -> bool:
        """End a job; False if it has already ended."""
        ...

    async def suspend(self, jobs: Sequence[str], reason: str) -> None:
        """Make those of the jobs that are queued ``waiting``, as a worker would."""
        ...

    async def annotate(
        self, job: str, events: Sequence[bytes], *, expect_seq: int, outcome: JobOutcome | None = None
    ) -> int:
        """As ``append``, for a job that waits for the user or has ended. ``outcome`` also ends one that waits. Raises
        ``LeaseLost`` while the job is queued or running.
        """
        ...

    async def purge(self, job: str) -> bool:
        """Delete an ended job with its journal and key; False if it has not ended or does not exist."""
        ...

    async def read(
        self, job: str, after_seq: int = 0, *, limit: int = 1000, wait: float = 0.0
    ) -> list[JournalEntry]:
        """The events after a number, in order. If there are none, wait up to ``wait`` seconds for the next, unless the job has
        ended.
        """
        ...

    async def get(self, job: str) -> Job | None: ...

    async def wait_for_release(self, job: str, *, wait: float) -> bool:
        """Wait up to ``wait`` seconds until no worker holds a lease of the job; returns whether that is the case."""
        ...

    async def find(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        states: Sequence[JobState] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        """The matching jobs, the newest first."""
        ...

    async def aclose(self) -> None:
        """Close the engine. Running jobs can be claimed again when it is next opened."""
        ...
