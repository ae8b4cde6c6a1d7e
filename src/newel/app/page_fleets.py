"""The fleet of the page: its engine, opened when a page first asks for it, and the proposals of its jobs' changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from newel.agent.errors import NewelError
from newel.app.fleet_worker import open_fleet
from newel.jobs.engine import EngineError
from newel.web.api.fleets import ProposedJob

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.fleet.engine import FleetEngine
    from newel.jobs.placement import Placement
    from newel.review_jobs.service import ReviewService

CLOSED = "Newel is ending."


class PageFleets:
    """Fulfils ``newel.web.api.fleets.FleetDesk``; ``run`` has to run meanwhile. Changes are proposed in the project of ``open_review``."""

    def __init__(
        self, settings: Settings, open_review: Callable[[], AbstractAsyncContextManager[ReviewService]]
    ) -> None:
        self._settings = settings
        self._open_review = open_review
        self._engine: FleetEngine | None = None
        self._failure: NewelError = EngineError(CLOSED)
        self._wanted, self._answered = anyio.Event(), anyio.Event()

    async def run(self) -> None:
        """Keep the engine open from its first use on; one that could not be opened is tried again with the next use."""
        while True:
            await self._wanted.wait()
            try:
                async with open_fleet(self._settings) as self._engine:
                    self._answered.set()
                    await anyio.sleep_forever()
            except NewelError as error:
                self._failure = error
            finally:
                self._engine = None
                self._answered.set()
                self._wanted, self._answered = anyio.Event(), anyio.Event()

    @asynccontextmanager
    async def engine(self) -> AsyncGenerator[FleetEngine]:
        if self._engine is None:
            self._wanted.set()
            await self._answered.wait()
        if self._engine is None:
            raise self._failure
        yield self._engine

    async def propose(self, engine: FleetEngine, placement: Placement) -> ProposedJob:
        from newel.app.fleet_changes import no_changes, read_job_changes
        from newel.app.review_limits import hunk_size
        from newel.fleet.proposals import AlreadyProposed, propose_changes

        changes = await read_job_changes(self._settings, engine, placement)
        if not changes.edits:
            return ProposedJob(run=changes.run, files=0, notices=[no_changes(placement)])
        async with self._open_review() as review:
            try:
                notices = await propose_changes(review.project, changes, hunk_size(self._settings))
            except AlreadyProposed as error:
                return ProposedJob(run=changes.run, files=0, notices=[str(error)])
        return ProposedJob(run=changes.run, files=len(changes.edits), notices=notices)
