"""Where jobs run, for engines that many machines share."""

from __future__ import annotations

from newel.agent.messages import Wire
from newel.jobs.engine import Job, JobState, JournalEntry


class WorkerIdentity(Wire, frozen=True, kw_only=True):
    """Who claims jobs: ``name`` is unique, also among earlier workers; ``machine`` outlives the worker. It claims the jobs all of whose
    labels are among its ``labels``, and runs up to ``slots`` of them. ``version`` is that of Newel.
    """

    name: str
    machine: str
    labels: list[str] = []
    slots: int = 1
    version: str = ""


class WorkerInfo(Wire, frozen=True, kw_only=True):
    """A worker as the database has it. ``name`` is unique; ``labels`` and ``slots`` are those it was started with, ``running`` counts its
    jobs. ``seen`` is when it was last heard of, in ISO 8601 and UTC; one that is silent for longer than a lease is not ``alive``.
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
    """Where a job runs, as far as is known: its last worker, on ``machine``. ``fleet`` is that of the jobs that it was submitted with,
    ``result`` that of its ``JobOutcome``.
    """

    job: Job
    labels: list[str]
    fleet: str = ""
    result: str = ""
    worker: str = ""
    machine: str = ""

    @property
    def state(self) -> str:
        """The state for lists: that of a job that is done is its result."""
        return self.result if self.job.state == "done" and self.result else self.job.state


class FleetSummary(Wire, frozen=True, kw_only=True):
    """A fleet and the number of its jobs in each state, as ``Placement.state`` names it. ``submitted`` is in ISO 8601 and UTC; ``total`` is
    how many jobs it was to have, None if that was not said. ``params`` are those of the first job that is left.
    """

    id: str
    kind: str
    submitted: str
    states: dict[str, int]
    total: int | None
    params: bytes


class JobPlace(Wire, frozen=True, kw_only=True):
    """The machine that a job ran on last, and how many seconds ago it has ended; None if it has not."""

    machine: str
    ended: float | None


class LiveData(Wire, frozen=True, kw_only=True):
    """What the journal of a running job lacks: ``data`` is a JSON object that the engine does not interpret, empty for nothing, and belongs
    after event ``seq``.
    """

    seq: int
    data: bytes


class JobPage(Wire, frozen=True, kw_only=True):
    """A part of a job's journal, and its state. ``updated`` is when the state changed last. ``version`` is that of the live data, another
    one whenever it has changed, 0 for none; ``live`` is the data, None unless the reader has another version of it.
    """

    entries: list[JournalEntry]
    state: JobState
    updated: str
    version: int
    live: LiveData | None
