"""Composes a worker of a fleet: the database, the store of folders, and an agent with a sandbox for each job."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from newel.agent.errors import ConfigError
from newel.agent.formatting import pluralize
from newel.agent.messages import new_id
from newel.concurrency import background_tasks
from newel.jobs.engine import EngineError
from newel.storage.files import make_private, read_regular, replace_file
from newel.version import VERSION, install_with

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.fleet.engine import Budgets, FleetEngine
    from newel.fleet.job import FleetJob
    from newel.fleet.runner import WorkFolder
    from newel.jobs.engine import JobOutcome, Lease
    from newel.jobs.placement import WorkerIdentity
    from newel.jobs.worker import Handler, Worker
    from newel.runs.chat_session import AgentFactory

Report = Callable[[str], None]
"""Prints a line about the worker's work."""

LEASE_S: Final = 10.0
CLAIM_WAIT_S: Final = 2.0
"""The longest until a worker notices that it is to be drained."""
GRACE_S: Final = 25.0
"""How long a worker that is being stopped lets its jobs go on; then other workers continue them. Less than the 30 s after which Kubernetes
kills it.
"""
MAX_ATTEMPTS: Final = 1000
"""Workers may die for reasons of their own, such as a machine that is only lent."""

HANDED_OVER: Final = "Worker {worker} was stopped; another one continues."


@asynccontextmanager
async def open_fleet(settings: Settings, worker: WorkerIdentity | None = None) -> AsyncGenerator[FleetEngine]:
    """The engine of the settings. Raises ``ConfigError`` and ``EngineError``."""
    url = settings.engine.find_url(os.environ)
    try:
        from newel.jobs.postgres.engine import open_postgres_engine
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"The engine for many machines is not installed ({error.name} is missing). Install Newel with it: {install_with('fleet')}."
        ) from error
    async with open_postgres_engine(url, worker=worker, lease=LEASE_S) as engine:
        yield engine


class FleetWorker:
    """Runs the jobs of a fleet on this machine. ``labels`` and ``slots`` are those of the settings, unless they are given."""

    def __init__(
        self, settings: Settings, report: Report, *, labels: list[str] | None = None, slots: int | None = None
    ) -> None:
        from newel.fleet.disk_space import DiskSpace
        from newel.jobs.placement import WorkerIdentity

        self._settings = settings
        self._report = report
        self._home = settings.home / "fleet"
        self._slots = slots or settings.fleet.slots
        self.identity = WorkerIdentity(
            name=f"{socket.gethostname()}-{os.getpid()}-{new_id()[:4]}",
            machine=_machine_id(self._home),
            labels=settings.fleet.labels if labels is None else labels,
            slots=self._slots,
            version=VERSION,
        )
        self._disk = DiskSpace(self._home, report)
        self._stopping = anyio.Event()
        self._at_once = anyio.Event()

    def stop(self, *, now: bool) -> None:
        """Claim no more jobs, and hand the running ones over after a while, or now."""
        self._stopping.set()
        if now:
            self._at_once.set()

    async def run(self) -> None:
        """Run jobs until stopped or drained. Raises ``ConfigError`` and ``EngineError``."""
        from newel.app.fleet_maintenance import FleetMaintenance
        from newel.app.fleet_trials import trial_runner
        from newel.fleet.eval_job import EVAL_TRIAL
        from newel.fleet.folders import JobFolders, open_store
        from newel.fleet.job import FLEET_CONTRACT
        from newel.fleet.runner import FleetRunner
        from newel.jobs.worker import Worker
        from newel.runs.event_hub import EventHub

        async with AsyncExitStack() as stack:
            store = open_store(self._settings.fleet.find_store(os.environ))
            folders = JobFolders(
                self._home / "jobs",
                store,
                self._report,
                is_full=self._disk.is_full,
                allow_local_repos=self._settings.fleet.allow_local_repos,
            )
            engine = await stack.enter_async_context(open_fleet(self._settings, self.identity))
            hub = await stack.enter_async_context(EventHub(engine))
            open_factory = partial(open_job_factory, self._settings, engine.budgets)
            runner = FleetRunner(
                engine, hub, folders.open, open_factory, is_full=self._disk.is_full, report=self._report
            )
            trials = trial_runner(self._settings, engine)

            worker = Worker(
                engine,
                {
                    FLEET_CONTRACT: partial(self._reported, runner),
                    EVAL_TRIAL: partial(self._reported, trials),
                },
                slots=self._slots,
                name=self.identity.name,
                claim_wait=CLAIM_WAIT_S,
                max_attempts=MAX_ATTEMPTS,
                must_wait=self._disk.is_full,
                failed=lambda lease, reason: self._report(f"{lease.job[:8]} failed: {reason}"),
                ended=lambda: maintenance.note_end(),  # noqa: PLW0108 — made below
            )
            maintenance = FleetMaintenance(
                self._home,
                store,
                engine.retention,
                self._report,
                keep_days=self._settings.fleet.keep_days,
                running=lambda: [lease.job for lease in worker.running],
            )
            self._report(
                f"Worker {self.identity.name} is ready: {pluralize(self._slots, 'slot')}{_with_labels(self.identity.labels)}."
            )
            async with background_tasks(maintenance.run) as group:
                group.start_soon(self._watch, engine, worker)
                await worker.run()

    async def _watch(self, engine: FleetEngine, worker: Worker) -> None:
        """Drain the worker when it is to end, or an operator says so."""
        is_draining = False
        while not (self._stopping.is_set() or is_draining):
            with anyio.move_on_after(CLAIM_WAIT_S):
                await self._stopping.wait()
            with contextlib.suppress(EngineError):  # the database is unavailable
                is_draining = await engine.is_draining()
        worker.drain()
        if not self._stopping.is_set():
            self._report(f"Draining: {pluralize(len(worker.running), 'job')} left.")
            await self._stopping.wait()
        self._report(
            f"Stopping: {len(worker.running)} jobs have {GRACE_S:g} s; then other workers continue them."
        )
        with anyio.move_on_after(GRACE_S):
            await self._at_once.wait()
        worker.hand_over(HANDED_OVER.format(worker=self.identity.name))

    async def _reported(self, runner: Handler, lease: Lease) -> JobOutcome:
        again = f", attempt {lease.attempt}" if lease.attempt > 1 else ""
        self._report(f"{lease.job[:8]} begins{again}")
        outcome = await runner(lease)
        self._report(f"{lease.job[:8]} {outcome.state}{': ' if outcome.reason else ''}{outcome.reason}")
        return outcome


@asynccontextmanager
async def open_job_factory(
    settings: Settings, budgets: Budgets, job: FleetJob, folder: WorkFolder
) -> AsyncGenerator[AgentFactory]:
    """What creates the agent of a job: with the model and the sandbox of this machine's settings, and the job's own home. Raises
    ``ConfigError``, ``ProviderError`` and ``WorkspaceError``.
    """
    from newel.app.agent_place import open_agent_place
    from newel.app.workbench_agents import open_agent_factory
    from newel.fleet.budget import BudgetedProvider

    own = msgspec.structs.replace(settings, cwd=folder.path, home=folder.home, approve=job.approve)
    async with (
        open_agent_place(own, attended=False) as place,
        open_agent_factory(place.settings, place.host, ephemeral=False, attended=False) as factory,
    ):
        factory.provider = BudgetedProvider(
            factory.provider,
            budgets,
            job.fleet,
            server=factory.in_use.server.name,
            slots=settings.fleet.max_requests,
        )
        yield factory


def _machine_id(home: Path) -> str:
    """The id of this machine, which outlives its workers: it has the folders of their jobs. Raises ``SnapshotError``."""
    from newel.fleet.errors import disk_errors

    with disk_errors(home):
        make_private(home)
        file = home / "machine"
        with contextlib.suppress(OSError):
            return read_regular(file).decode("ascii", "replace").strip()[:64]
        replace_file(file, new_id().encode())
        return read_regular(file).decode("ascii")


def _with_labels(labels: list[str]) -> str:
    return f", labels {', '.join(labels)}" if labels else ""
