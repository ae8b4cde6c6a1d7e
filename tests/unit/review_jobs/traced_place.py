"""A project under review whose jobs write traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from newel.agent.ports import Model, Provider
from newel.jobs.engine import Engine
from newel.review_jobs.dependencies import ReviewLimits
from newel.review_jobs.journal import JobJournal
from newel.review_jobs.traces import Trace, Traces, load_trace
from newel.storage.files import project_folder
from tests.review_bench import ReviewBench


class TracedPlace(ReviewBench):
    """Like ``Place``, with traces in a Newel home."""

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
        self.jobs = project_folder(folder / "jobs", str(self.root))
        self.traces = folder / "traces"
        self.model = Model("mock-model", "mock")
        self._secrets = secrets

    def new_traces(self, engine: Engine) -> Traces:
        return Traces(engine, self.traces, str(self.root), self._secrets)

    def path(self, job: str) -> Path:
        return self.traces / f"{job}.jsonl"

    async def trace(self, job: str) -> Trace:
        """The trace that ``newel trace`` shows."""
        return await load_trace(self.path(job), self.folder, self._secrets)

    async def live(self, job: str) -> JobJournal:
        """The journal itself."""
        return await JobJournal.open(self.engine, job, limit=1_000_000)
