"""A project under review whose jobs leave traces."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from newel.agent.ports import Model, Provider, RunConfig
from newel.agent.transform import Transformer
from newel.jobs.engine import Engine
from newel.jobs.review.bench import Bench
from newel.jobs.review.desk import ReviewDesk
from newel.jobs.review.journal import JobJournal
from newel.jobs.review.limits import ReviewLimits
from newel.jobs.review.trace import Trace, read_trace
from newel.jobs.sqlite import open_engine
from newel.jobs.worker import Worker
from newel.review.checkpoints import Checkpoints
from newel.review.saving import Saver
from newel.review.store import Ledger
from newel.workspace.local import LocalWorkspace
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
        self._traced_limits = limits or ReviewLimits()
        self._secrets = secrets
        self.traced: Engine

    @asynccontextmanager
    async def open(self, *, working: bool = True) -> AsyncGenerator[ReviewDesk]:
        async with open_engine(self.folder / "jobs") as engine:
            with Ledger.open(self.folder / "review") as ledger:
                workspace = LocalWorkspace(str(self.root))
                saver = Saver(ledger, workspace)
                bench = Bench(
                    engine=engine,
                    ledger=ledger,
                    workspace=workspace,
                    saver=saver,
                    checkpoints=Checkpoints(ledger, saver),
                    provider=self.provider,
                    config=RunConfig(model=Model("mock-model", "mock"), transform=Transformer()),
                    limits=self._traced_limits,
                    traces=self.traces,
                    secrets=self._secrets,
                )
                self.engine, self.ledger, self.traced = engine, ledger, bench.engine
                self.desk = await ReviewDesk.open(bench)
                async with anyio.create_task_group() as tasks:
                    if working:
                        tasks.start_soon(Worker(engine, self.desk.handlers, slots=4).run)
                    yield self.desk
                    tasks.cancel_scope.cancel()

    def path(self, job: str) -> Path:
        return self.traces / f"{job}.jsonl"

    def trace(self, job: str) -> Trace:
        return read_trace(self.path(job))

    async def live(self, job: str) -> JobJournal:
        """What the journal itself gives."""
        return await JobJournal.open(self.traced, job, limit=1_000_000)
