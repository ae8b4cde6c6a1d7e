"""A project under review whose jobs leave traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from newel.agent.ports import Model, Provider
from newel.jobs.engine import Engine
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.journal import JobJournal
from newel.review_jobs.trace_file import Trace, read_trace
from newel.review_jobs.tracing_engine import TracedEngine, Traces
from tests.review_place import Place


class TracedPlace(Place):
    """As ``Place``, with its traces in the folder ``traces``."""

    def __init__(
        self,
        folder: Path,
        provider: Provider,
        limits: ReviewLimits | None = None,
        *,
        secrets: Sequence[str] = (),
    ) -> None:
        super().__init__(folder, provider, limits or ReviewLimits())
        self.folder = folder
        self.traces = folder / "traces"
        self.model = Model("mock-model", "mock")
        self._secrets = secrets
        self.traced: Engine

    def new_traces(self, engine: Engine) -> Traces:
        kept = Traces(engine, self.traces, str(self.root), self._secrets)
        self.traced = TracedEngine(engine, kept)
        return kept

    def path(self, job: str) -> Path:
        return self.traces / f"{job}.jsonl"

    def trace(self, job: str) -> Trace:
        return read_trace(self.path(job))

    async def live(self, job: str) -> JobJournal:
        """What the journal itself gives."""
        return await JobJournal.open(self.traced, job, limit=1_000_000)
