"""Where jobs run, for engines that many machines share."""

from __future__ import annotations

from newel.agent.messages import Wire
from newel.jobs.engine import Job


class WorkerIdentity(Wire, frozen=True, kw_only=True):
    """Who claims jobs: ``name`` is unique, also among earlier workers; ``machine`` outlives the worker. It claims the jobs all of whose labels
    are among its ``labels``, and runs up to ``slots`` of them. ``version`` is that of Newel.
    """

    name: str
    machine: str
    labels: list[str] = []
    slots: int = 1
    version: str = ""


class WorkerInfo(Wire, frozen=True, kw_only=True):
    """A worker as the database has it. ``name`` is unique; ``labels`` and ``slots`` are those it was started with, ``running`` counts its jobs.
    ``seen`` is when it was last heard of, in ISO 8601 and UTC; one that is silent for longer than a lease is not ``alive``.
    """

    name: str
    machine: str
    version: str
    labels: list[str]
    slots: int
    running: int
    draining: bool
    alive: bool
    seen: str


class Spending(Wire, frozen=True, kw_only=True):
    """What some jobs may spend together, and what they have: US dollars and tokens. None is no limit."""

    max_cost: float | None
    max_tokens: int | None
    cost: float
    tokens: int


class Placement(Wire, frozen=True, kw_only=True):
    """Where a job runs, as far as is known: its last worker, on ``machine``."""

    job: Job
    labels: list[str]
    worker: str = ""
    machine: str = ""
