"""Runs the contracts of a fleet on one machine.

claim ── open the folder: as a snapshot has it, or as it begins
  │
  ├── the contract: each result of a tool comes into the journal with a snapshot of the folder
  │
finish ── the next machine needs the journal and the last snapshot, and nothing of this one
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import anyio
import msgspec

from newel.agent.errors import ConnectionFailed, NewelError, RateLimited, ServerFailed
from newel.agent.events import ToolExecutionEnd
from newel.concurrency import background_tasks
from newel.contracts.contract_job import ContractParams, decline_questions, outcome, run_contract_job
from newel.contracts.run_log import log_file
from newel.fleet.budget import exceeded_budget
from newel.fleet.engine import FleetEngine
from newel.fleet.job import FleetJob, check_session
from newel.fleet.live import read_live_data
from newel.jobs.engine import EngineError, JobCancelled, JobOutcome, Lease, LeaseLost
from newel.runs.chat_session import AgentFactory, ChatSession
from newel.runs.chat_turn import read_events
from newel.runs.event_hub import EventHub, JournalWriter
from newel.runs.run_events import AcceptanceEnd, ContractState, FolderSnapshot, RunEvent

RETRY_AFTER_S: Final = 20.0
MAX_OPENINGS: Final = 10
"""How often a job that cannot begin is tried: the server of its repository may be unavailable. Attempts that ended later do not count."""

MODEL_POLL_S: Final = 2.0
MODEL_PATIENCE_S: Final = 600.0
"""How long a job waits here to begin while the model server is unavailable, before another worker may have it."""


class FolderUnavailable(NewelError):
    """A job's folder cannot be made now, but perhaps later, or on another machine."""


class WorkFolder(Protocol):
    """The folder that a job works in, and ``home``, its own folder for sessions and records of changes."""

    @property
    def path(self) -> Path: ...

    @property
    def home(self) -> Path: ...

    async def snapshot(self) -> FolderSnapshot | None:
        """Store the folder as it is; None if it has not changed since the last snapshot. Raises ``NewelError``."""
        ...

    async def forget_superseded(self, first: FolderSnapshot, last: FolderSnapshot) -> None:
        """The journal has the ``last`` snapshot now: those between it and the ``first`` one may be removed from the store. Raises
        nothing.
        """
        ...


TRANSIENT: Final = (ConnectionFailed, RateLimited, ServerFailed)
"""Errors of a model server that is unavailable, perhaps because it is being restarted."""

OpenFolder = Callable[[str, FleetJob, FolderSnapshot | None], AbstractAsyncContextManager[WorkFolder]]
"""Opens the folder of a job by its id, as it was in a snapshot. Raises ``FolderUnavailable``, and other ``NewelError`` for what stays so.
"""

OpenFactory = Callable[[FleetJob, WorkFolder], AbstractAsyncContextManager[AgentFactory]]
"""Opens what creates the agent of a job."""


class FleetRunner:
    """The handler of these jobs; see ``newel.jobs.worker.Handler``."""

    def __init__(
        self,
        engine: FleetEngine,
        hub: EventHub,
        open_folder: OpenFolder,
        open_factory: OpenFactory,
        *,
        is_full: Callable[[], bool] = lambda: False,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``is_full`` tells whether this machine's disk is full: nothing that a job does then is taken for its work. ``report`` prints a
        line for the operator.
        """
        self._engine = engine
        self._hub = hub
        self._open_folder = open_folder
        self._open_factory = open_factory
        self._is_full = is_full
        self._report = report

    async def __call__(self, lease: Lease) -> JobOutcome:
        try:
            return await self._open_and_run(lease)
        except (LeaseLost, JobCancelled):
            raise
        except NewelError as error:
            # Neither an unavailable database or model server nor a full disk says anything about the job.
            if not isinstance(error, (EngineError, *TRANSIENT)) and not self._is_full():
                raise
            return JobOutcome(state="retry", reason=str(error), delay=RETRY_AFTER_S)

    async def _open_and_run(self, lease: Lease) -> JobOutcome:
        job = msgspec.json.decode(lease.params, type=FleetJob)
        check_session(job)
        earlier = await read_events(self._engine, lease.job) if lease.seq else []
        snapshots = [event for event in earlier if isinstance(event, FolderSnapshot)]
        latest = snapshots[-1] if snapshots else None
        async with AsyncExitStack() as stack:
            try:
                folder = await stack.enter_async_context(self._open_folder(lease.job, job, latest))
                factory = await self._factory(stack, lease, job, folder)
            except FolderUnavailable as error:
                opened = sum(isinstance(each, ContractState) and each.state == "running" for each in earlier)
                if lease.attempt - opened >= MAX_OPENINGS:
                    raise
                return JobOutcome(state="retry", reason=str(error), delay=RETRY_AFTER_S)
            read_live = partial(read_live_data, self._hub, lease.job)
            async with background_tasks(partial(self._engine.live.write, lease, read_live)):
                return await self._run(lease, job, folder, factory, snapshots)

    async def _factory(
        self, stack: AsyncExitStack, lease: Lease, job: FleetJob, folder: WorkFolder
    ) -> AgentFactory:
        """Wait for an unavailable model server: it says nothing about the job, and would end all that wait. Raises ``NewelError``."""
        began, is_told = anyio.current_time(), False
        while True:
            try:
                return await stack.enter_async_context(self._open_factory(job, folder))
            except TRANSIENT as error:
                if anyio.current_time() - began > MODEL_PATIENCE_S:
                    raise
                if not is_told:
                    self._report(f"{lease.job[:8]} waits: {error}")
                is_told = True
            await anyio.sleep(MODEL_POLL_S)

    async def _run(
        self,
        lease: Lease,
        job: FleetJob,
        folder: WorkFolder,
        factory: AgentFactory,
        snapshots: list[FolderSnapshot],
    ) -> JobOutcome:
        """``snapshots`` are those of earlier attempts."""
        chat = ChatSession(
            session=job.session,
            folder=str(folder.path),
            model=None,
            agent_mode=None,
            approve=job.approve,
            factory=factory,
            on_change=lambda change: decline_questions(chat, change),
        )

        async def find_preceding(event: RunEvent) -> Sequence[RunEvent]:
            if self._is_full():
                raise EngineError(
                    "The disk of this job's worker was full. The job goes on where there is room."
                )
            if not isinstance(event, ToolExecutionEnd | AcceptanceEnd):
                return ()
            snapshot = await folder.snapshot()
            return () if snapshot is None else (snapshot,)

        async def note_snapshots(events: Sequence[RunEvent]) -> None:
            for event in events:
                if isinstance(event, FolderSnapshot):
                    snapshots.append(event)
                    await folder.forget_superseded(snapshots[0], event)

        params = ContractParams(
            tab="",
            contract=factory.apply_limits(job.contract),
            session=job.session,
            folder=str(folder.path),
            log=str(log_file(folder.home / "logs", job.fleet)),
            approve=job.approve,
        )
        journal = JournalWriter(
            self._engine, lease, self._hub, find_preceding=find_preceding, on_appended=note_snapshots
        )
        if not snapshots and (beginning := await folder.snapshot()) is not None:
            await journal(beginning)  # what the job's changes are measured by
        state = await run_contract_job(
            lease,
            params,
            chat,
            self._engine,
            self._hub,
            journal=journal,
            find_reason_to_stop=partial(exceeded_budget, self._engine.budgets, job),
        )
        return outcome(state)
