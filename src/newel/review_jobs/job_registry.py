"""The journals of review jobs that have not finished. Each is opened once; all services share it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import anyio

from newel.jobs.engine import Engine, Job
from newel.review.model.file_lines import text_hash
from newel.review.model.file_review import FileReview
from newel.review_jobs.errors import NoSuchJob
from newel.review_jobs.journal import JobJournal
from newel.review_jobs.responses import FileAction
from newel.review_jobs.traces import Traces

LoadedJob = tuple[Job, JobJournal]


class JobRegistry:
    """Opens journals, and tells jobs under review what happens to their files."""

    def __init__(self, engine: Engine, traces: Traces | None, *, max_events: int) -> None:
        self._engine = engine
        self._traces = traces
        self._max_events = max_events
        self._journals: dict[str, JobJournal] = {}
        self._lock = anyio.Lock()

    async def get(self, job_id: str) -> JobJournal:
        """The journal of a job, whose state is up to date. Raises ``NoSuchJob``."""
        async with self._lock:
            journal = self._journals.get(job_id)
            if journal is None:
                journal = await JobJournal.open(self._engine, job_id, limit=self._max_events)
                self._journals[job_id] = journal
            else:
                await journal.reconcile()
            self._drop_finished(journal)
            return journal

    async def load(self, jobs: Iterable[Job]) -> list[LoadedJob]:
        """Jobs with their journals, without those that are purged meanwhile."""
        loaded: list[LoadedJob] = []
        for job in jobs:
            with contextlib.suppress(NoSuchJob):
                loaded.append((job, await self.get(job.id)))
        return loaded

    async def release(self, journal: JobJournal) -> None:
        """Export the trace of a job that has stopped running; drop its journal if it has finished."""
        self._drop_finished(journal)
        await self.export_trace(journal.job)

    def _drop_finished(self, journal: JobJournal) -> None:
        if journal.state.is_finished:
            self._journals.pop(journal.job, None)

    async def export_trace(self, job_id: str) -> None:
        if self._traces is not None:
            await self._traces.export(job_id)

    async def purge(self, job_id: str) -> bool:
        """Delete a job that has ended, except its trace; False if it has not ended."""
        self._journals.pop(job_id, None)
        await self.export_trace(job_id)
        return await self._engine.purge(job_id)

    def awaiting_review(self, paths: Sequence[str] = ()) -> list[JobJournal]:
        """The jobs with one of these files, or any file, under review."""
        return [
            journal
            for journal in self._journals.values()
            if journal.state.status == "awaiting_review"
            and (not paths or not journal.state.hashes.keys().isdisjoint(paths))
        ]

    async def publish(self, review: FileReview, action: FileAction, hunk_ids: Sequence[str] = ()) -> None:
        """Record a change of a file in each job that has it under review."""
        for journal in self.awaiting_review([review.path]):
            await journal.notify(
                "review.updated",
                file_path=review.path,
                rev=review.rev,
                action=action,
                hunk_ids=list(hunk_ids),
                base_file_hashes={review.path: text_hash(review.base)},
            )
