"""A run of the suite: its trials are jobs of an engine in the run's folder, so that a run that was killed can be resumed.

RUN/
    run.json           what is run: see ``RunPlan``
    jobs.db …          the engine, with a result as the event of each trial that has ended
    trials/TASK.1/     the folder of a trial: project, home, trace.jsonl, stderr.txt
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import anyio
import msgspec

from newel.agent.errors import NewelError
from newel.agent.formatting import describe_error
from newel.agent.ports import ThinkingLevel, ToolCallMode
from newel.concurrency import background_tasks
from newel.evals.task import Task
from newel.evals.trial import TrialResult, invalid
from newel.jobs.engine import FINAL, Engine, EngineError, JobOutcome, JournalEntry, Lease
from newel.jobs.sqlite import open_engine, open_reader
from newel.jobs.worker import Worker
from newel.storage.files import make_private, read_regular, replace_file
from newel.text.json import decode_json

PLAN: Final = "run.json"
REPLAY: Final = "replay"
"""The mode of a run with recorded answers in place of a model's."""

_KIND: Final = "trial"
_QUEUE_PREFIX: Final = "trial-"
"""Each trial has a queue of its own, as a queue runs one job at a time."""

_ALL: Final = 1_000_000

_MIN_FREE: Final = 1 << 20
"""Bytes. With fewer, the disk counts as full."""

OVER_BUDGET: Final = "the budget of the run is spent"

TryTask = Callable[[Task, int, Path], Awaitable[TrialResult]]
"""Makes a trial of a task, with the number of its repetition, in a folder."""


class BudgetSpent(NewelError):
    """A trial has not begun, as the budget of its run is spent."""


class RunError(NewelError):
    """A run that cannot be started, resumed or read."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is run. ``mode`` is ``REPLAY`` or the agent mode. ``agent`` and ``model`` are for readers, ``flags`` and ``command`` those of
    ``AgentSetup``; ``max_cost`` is in US dollars. ``config`` is that of ``AgentSetup``. ``traces`` tells for each task what its replay
    takes the answers from. ``preset`` is the name of another agent, in place of a command, which uses ``model`` of the server ``base_url``.
    ``tasks`` maps the name of each task in the folder ``suite`` to its digest. ``timeout`` is in seconds, and takes the place of the tasks'
    own. With ``on_fleet``, the trials run on workers that have all ``labels``, whose settings tell the server; ``model``, ``thinking`` and
    ``tool_calls`` are then those of the agents, and there are no ``flags``.
    """

    id: str
    started: str
    agent: str
    model: str
    mode: str
    flags: list[str]
    command: str
    repeats: int
    tasks: dict[str, str]
    suite: str
    version: str
    max_cost: float | None = None
    preset: str = ""
    base_url: str = ""
    timeout: float | None = None
    config: dict[str, dict[str, Any]] = {}
    traces: dict[str, str] = {}
    on_fleet: bool = False
    labels: list[str] = []
    thinking: ThinkingLevel = "off"
    tool_calls: ToolCallMode | None = None


class _TrialParams(msgspec.Struct, frozen=True):
    task: str
    repeat: int


def save_plan(folder: Path, plan: RunPlan) -> None:
    """Begin a run in a new folder. Raises ``RunError``."""
    try:
        make_private(folder)
        replace_file(folder / PLAN, msgspec.json.format(msgspec.json.encode(plan), indent=2))
    except OSError as error:
        raise RunError(f"The run cannot be written to {folder}: {error.strerror}.") from error


def load_plan(folder: Path) -> RunPlan:
    """Raises ``RunError``."""
    try:
        return decode_json(read_regular(folder / PLAN), RunPlan)
    except OSError as error:
        raise RunError(f"There is no run in {folder}: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise RunError(f"{folder / PLAN} is damaged: {error}.") from error


def trial_folder(run: Path, task: str, repeat: int) -> Path:
    """The folder of a trial in that of its run."""
    return run / "trials" / f"{task}.{repeat}"


class SuiteRun:
    """Runs the trials of a plan that have not ended yet. ``report`` is called with each result, those of earlier processes first."""

    def __init__(
        self,
        folder: Path,
        plan: RunPlan,
        tasks: Sequence[Task],
        try_task: TryTask,
        report: Callable[[TrialResult], None],
    ) -> None:
        self._folder = folder
        self._plan = plan
        self._tasks = {task.name: task for task in tasks}
        self._try_task = try_task
        self._report = report
        self._left = 0
        self._spent = 0.0
        self._stopped = ""
        self._done = anyio.Event()

    async def run(self, *, slots: int) -> None:
        """Raises ``EngineError``, also if another process runs this plan, and ``RunError`` if the disk is full."""
        async with open_engine(self._folder) as engine:
            for job in reversed(await engine.find(kind=_KIND, limit=_ALL)):
                for entry in await engine.read(job.id):
                    self._count(_decode(entry))
            jobs = await self._submit(engine)
            self._left = len(
                [job for job in jobs if (found := await engine.get(job)) and found.state not in FINAL]
            )
            if not self._left:
                return
            worker = Worker(
                engine, {_KIND: lambda lease: self._handle(engine, lease)}, slots=slots, failed=self._fail
            )
            async with background_tasks(worker.run):
                await self._done.wait()
        if self._stopped:
            raise RunError(self._stopped)

    async def _submit(self, engine: Engine) -> list[str]:
        jobs: list[str] = []
        for repeat in range(1, self._plan.repeats + 1):
            for name in self._tasks:
                key = f"{name}.{repeat}"
                params = msgspec.json.encode(_TrialParams(name, repeat))
                jobs.append(await engine.submit(_KIND, params, queue=_QUEUE_PREFIX + key, key=key))
        return jobs

    async def _handle(self, engine: Engine, lease: Lease) -> JobOutcome:
        params = msgspec.json.decode(lease.params, type=_TrialParams)
        if self._plan.max_cost is not None and self._spent >= self._plan.max_cost:
            self._end_one()
            return JobOutcome(state="failed", reason=OVER_BUDGET)
        task = self._tasks[params.task]
        if self._plan.timeout is not None:
            task = msgspec.structs.replace(task, timeout=self._plan.timeout)
        try:
            result = await self._try(task, params.repeat)
        except BudgetSpent as error:
            self._end_one()
            return JobOutcome(state="failed", reason=str(error))
        if self._is_disk_full():
            await self._stop(params)
        try:
            await engine.append(lease, [msgspec.json.encode(result)], expect_seq=lease.seq)
        except EngineError:
            if not self._is_disk_full():
                raise
            await self._stop(params)
        self._count(result)
        self._end_one()
        return JobOutcome(state="done")

    async def _try(self, task: Task, repeat: int) -> TrialResult:
        """A full disk, or a task that cannot be used, fails its own trial. Raises ``BudgetSpent``."""
        try:
            return await self._try_task(task, repeat, trial_folder(self._folder, task.name, repeat))
        except BudgetSpent:
            raise
        except Exception as error:  # noqa: BLE001 — a trial without a result would be missing for ever
            return invalid(task, repeat, f"The trial could not be made: {describe_error(error)}")

    def _is_disk_full(self) -> bool:
        return shutil.disk_usage(self._folder).free < _MIN_FREE

    async def _stop(self, params: _TrialParams) -> NoReturn:
        """End the run without a result of this trial, which says nothing about the agent: its job remains, to be resumed."""
        place = trial_folder(self._folder, params.task, params.repeat)
        self._stopped = (
            f"The disk is full, and so the trial in {place} has no result. Make room, then resume it with "
            f"`newel eval run --resume {self._plan.id}`."
        )
        self._done.set()
        await anyio.sleep_forever()
        raise AssertionError

    def _count(self, result: TrialResult) -> None:
        self._spent += result.metrics.cost or 0.0
        self._report(result)

    def _fail(self, lease: Lease, reason: str) -> None:
        params = msgspec.json.decode(lease.params, type=_TrialParams)
        self._report(invalid(self._tasks[params.task], params.repeat, reason))
        self._end_one()

    def _end_one(self) -> None:
        self._left -= 1
        if not self._left:
            self._done.set()


async def read_results(folder: Path) -> list[TrialResult]:
    """The results so far, also of a run that is going on. Raises ``EngineError``."""
    async with open_reader(folder) as reader:
        jobs = reversed(await reader.find(kind=_KIND, limit=_ALL))
        return [_decode(entry) for job in jobs for entry in (await reader.read(job.id, 0, _ALL))[0]]


def _decode(entry: JournalEntry) -> TrialResult:
    return msgspec.json.decode(entry.data, type=TrialResult)
