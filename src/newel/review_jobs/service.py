"""The review service: what a client talks to, be it the HTTP API or a page.

    service = await ReviewService.open(dependencies)
    tasks.start_soon(Worker(engine, service.handlers, slots=4).run)
    session = await service.sessions.create()
    job = await service.jobs.run(RunRequest(session_id=session.session_id, instruction="Split the long lines"))
    …                                                    poll service.jobs.events(job.job_id, cursor)
    await service.jobs.apply(session.session_id, job.job_id, ["h_1"])

Each service covers one topic; calls go down this list and never up:

    decisions   checkpoints   rewinds       accept, edit, undo and save; roll back; undo and redo runs
          jobs                              run, answer, cancel and apply jobs
          sessions                          create and archive sessions; delete old ones and their jobs
    files     registry                      reads files under review; holds the journals of live jobs
    ledger    engine                        what persists: hunks and decisions; sessions and jobs

When a method returns, its change is durable. A service that is opened again on the same ledger and engine resumes where
the previous one stopped, even in the middle of an ``apply``.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from typing import Final, Self

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError
from newel.agent.ports import Model
from newel.jobs.engine import LIVE, Job, JobOutcome, Lease
from newel.jobs.worker import Handler
from newel.review.project import ProjectReview
from newel.review.store.schema import LedgerError
from newel.review.store.watch import LedgerWatch, News, Revs
from newel.review_jobs import apply
from newel.review_jobs.checkpoints import CheckpointService
from newel.review_jobs.decisions import ReviewDecisions
from newel.review_jobs.dependencies import ReviewDependencies
from newel.review_jobs.file_browser import FileBrowser
from newel.review_jobs.files import ReviewFiles
from newel.review_jobs.job_registry import JobRegistry
from newel.review_jobs.job_service import JobService
from newel.review_jobs.journal import KIND, JobJournal, find_jobs
from newel.review_jobs.overview import Overview
from newel.review_jobs.rewinds import RewindService
from newel.review_jobs.runner import outcome_of, run_job
from newel.review_jobs.sessions import SessionService, SessionStore, chat_of

_WATCH_RETRY_S: Final = 5.0
"""Seconds until a ledger that could not be read is read again."""


class ReviewService:
    """The services of one project, and the worker's side of its jobs. Use ``open``; one per engine at a time.

    Methods of the services raise ``ReviewServiceError`` and ``ReviewError`` (see ``newel.review_jobs.errors``), and
    ``EngineError``; nothing has changed then, unless the error says so.
    """

    def __init__(self, dependencies: ReviewDependencies, store: SessionStore) -> None:
        engine, ledger, limits = dependencies.engine, dependencies.ledger, dependencies.limits
        self.limits = limits
        self._dependencies = dependencies
        self._registry = JobRegistry(engine, dependencies.traces, max_events=limits.max_events_per_job)
        self.files = ReviewFiles(ledger, dependencies.saver, dependencies.workspace)
        self.overview = Overview(ledger)
        self.browser = FileBrowser(dependencies.workspace, self.overview)
        self.sessions = SessionService(engine, store, self._registry, limits)
        self.jobs = JobService(dependencies, self.sessions, self._registry, self.files)
        self.decisions = ReviewDecisions(self.files, self._registry, self.jobs, limits)
        self.checkpoints = CheckpointService(ledger, dependencies.checkpoints, self.files, self._registry)
        self.project = ProjectReview(ledger, dependencies.workspace)
        self.rewinds = RewindService(self.project, self.files, self._registry)

    @classmethod
    async def open(cls, dependencies: ReviewDependencies) -> Self:
        """Resume what the engine and the ledger hold. Call this before a worker claims jobs of the engine."""
        engine = dependencies.engine
        service = cls(dependencies, await SessionStore.open(engine))
        await dependencies.saver.recover()
        await service.sessions.collect()
        for job in await engine.find(kind=KIND, states=LIVE, limit=10_000):
            journal = await service._registry.get(job.id)
            if job.state == "queued":
                await service._suspend(job, journal)
            await apply.resume(service.files, journal)
            if job.state in {"waiting", "asking"} and journal.state.status in {"queued", "running"}:
                await journal.resume()  # the process died between taking the answer and using it
        return service

    def use_model(self, model: Model) -> None:
        """Use another model for the jobs that start from now on."""
        config = msgspec.structs.replace(self._dependencies.config, model=model)
        self._dependencies = self._dependencies._replace(config=config)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The job handlers for the engine's worker."""
        return {KIND: self._run}

    async def _run(self, lease: Lease) -> JobOutcome:
        journal = await self._registry.get(lease.job)
        journal.lease = lease
        try:
            jobs = await find_jobs(self._dependencies.engine, journal.params.session)
            earlier = itertools.takewhile(lambda job: job.id != lease.job, jobs)
            chat = chat_of(await self._registry.load(earlier))
            return await run_job(self._dependencies, journal, chat)
        finally:
            journal.lease = None
            with anyio.CancelScope(shield=True):  # also when the worker is stopped
                await self._registry.release(journal)

    async def _suspend(self, job: Job, journal: JobJournal) -> None:
        """Suspend a job whose journal says that it waits, but whose process died before the engine knew."""
        if journal.state.status in {"queued", "running"}:
            return
        engine = self._dependencies.engine
        for lease in await engine.claim(1, "review", queues=[job.queue]):
            outcome = outcome_of(journal.state) if lease.job == job.id else JobOutcome(state="retry")
            await engine.finish(lease, outcome)

    # -- the ledger's changes -----------------------------------------------------------------------

    async def watch(self, on_change: Callable[[Revs], None]) -> None:
        """Report changed files with their revisions, whoever changed them, until cancelled. A change by another process
        may complete a job's review.
        """
        while True:
            with contextlib.suppress(LedgerError):  # every reader of the ledger reports it
                await self._watch(on_change)
            await anyio.sleep(_WATCH_RETRY_S)

    async def _watch(self, on_change: Callable[[Revs], None]) -> None:
        watch = await anyio.to_thread.run_sync(LedgerWatch, self.files.ledger)
        limiter = anyio.CapacityLimiter(1)  # its thread blocks nearly always: keep it out of the shared pool
        # Triggers a first report: earlier changes went unreported.
        news: News | None = News({}, is_foreign=False)
        try:
            while True:
                if news is not None:
                    on_change(news.revs)
                    if news.is_foreign:
                        with contextlib.suppress(NewelError):  # the job stays in review until the next save
                            await self.jobs.complete_decided(list(news.revs))
                news = await anyio.to_thread.run_sync(watch.wait, abandon_on_cancel=True, limiter=limiter)
        finally:
            watch.close()
