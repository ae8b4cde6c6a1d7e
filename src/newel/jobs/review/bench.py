"""What review jobs work with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from newel.agent.ports import Provider, RunConfig
from newel.jobs.engine import Engine
from newel.jobs.review.limits import ReviewLimits
from newel.jobs.review.traced import TracedEngine, Traces
from newel.review.checkpoints import Checkpoints
from newel.review.saving import Saver
from newel.review.store import Ledger
from newel.workspace.port import Workspace


@dataclass(kw_only=True)
class Bench:
    """The parts of a desk. ``config`` says what a run of the loop needs besides tools, limits and a system prompt.

    ``traces`` is the folder where jobs leave traces, None for no traces; ``secrets`` never appear in one. ``engine`` keeps
    them then, so that they have all that goes into a journal.
    """

    engine: Engine
    ledger: Ledger
    workspace: Workspace
    saver: Saver
    checkpoints: Checkpoints
    provider: Provider
    config: RunConfig
    limits: ReviewLimits
    traces: Path | None = None
    secrets: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._traces: Traces | None = None
        if self.traces is not None:
            self._traces = Traces(self.engine, self.traces, self.workspace.root, self.secrets)
            self.engine = TracedEngine(self.engine, self._traces)

    def complaint(self) -> str:
        """What a user should be told of the traces, once; "" for nothing."""
        return "" if self._traces is None else self._traces.complaint()
