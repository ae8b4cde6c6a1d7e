"""What each worker of a fleet cleans up beside its work: its own disk, the database and the store."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from newel.fleet.errors import SnapshotError
from newel.fleet.eval_runner import remove_old_trials
from newel.fleet.folder_cleaner import FolderCleaner, remove_leftovers
from newel.fleet.retention import empty_store
from newel.jobs.engine import EngineError
from newel.text.format import pluralize

if TYPE_CHECKING:
    from newel.fleet.engine import Retention
    from newel.fleet.snapshot_store import SnapshotStore

FOLDERS_EVERY_S: Final = 300.0
STORE_EVERY_S: Final = 3600.0


class FleetMaintenance:
    """``home`` is the fleet's folder on this machine. Jobs that have ended ``keep_days`` ago are deleted; None keeps them. There is no
    leader: each worker does it, and none waits for another one. ``running`` tells the jobs that run here.
    """

    def __init__(
        self,
        home: Path,
        store: SnapshotStore,
        retention: Retention,
        report: Callable[[str], None],
        *,
        keep_days: int | None,
        running: Callable[[], list[str]],
        store_every: float = STORE_EVERY_S,
    ) -> None:
        self._home = home
        self._store = store
        self._retention = retention
        self._report = report
        self._keep_days = keep_days
        self._running = running
        self._store_every = store_every
        self._cleaner = FolderCleaner(home / "jobs", retention, report)
        self._job_ended = anyio.Event()
        self._problem = ""

    def note_end(self) -> None:
        """A job has ended here, as the database knows by now: its folder may be one too many."""
        self._job_ended.set()

    async def run(self) -> None:
        """Clean at once and then now and then, until cancelled."""
        store_due = time.monotonic() + self._store_every * random.uniform(0, 0.1)  # noqa: S311 — to spread the workers
        await anyio.to_thread.run_sync(remove_leftovers, self._home)
        await anyio.to_thread.run_sync(remove_old_trials, self._home / "trials")
        while True:
            self._job_ended = anyio.Event()
            with contextlib.suppress(EngineError):  # the database is unavailable
                await self._cleaner.clean(self._running())
            if time.monotonic() >= store_due:
                await self._clean_store()
                store_due = time.monotonic() + self._store_every * random.uniform(0.5, 1.5)  # noqa: S311
            with anyio.move_on_after(FOLDERS_EVERY_S):
                await self._job_ended.wait()

    async def _clean_store(self) -> None:
        try:
            if self._keep_days is not None and (count := await self._retention.expire(self._keep_days)):
                self._report(
                    f"Deleted {pluralize(count, 'job')} that had ended more than {pluralize(self._keep_days, 'day')} ago."
                )
            await empty_store(self._retention, self._store, self._report)
            self._problem = ""
        except (EngineError, SnapshotError) as error:
            if str(error) != self._problem:
                self._report(f"Cannot clean up now: {error}")
            self._problem = str(error)
