"""Has the trials of a run made by the workers of a fleet, and brings their results and files into the run's folder.

What comes back is hostile: another machine, or the agent on it, may have written anything.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.to_thread
import msgspec

from newel.evals.packed_files import MOST_PACKED, PackingError, pack_task, unpack_trial
from newel.evals.run import OVER_BUDGET, BudgetSpent, RunPlan
from newel.evals.task import Task
from newel.evals.trial import Metrics, TrialResult, invalid
from newel.fleet.engine import FleetEngine
from newel.fleet.eval_job import EVAL_TRIAL, PIECE, EvalTrialJob, TrialEnd, TrialPiece, decode_event
from newel.jobs.engine import FINAL, EngineError, Job
from newel.storage.folder_removal import remove_folder
from newel.text.json import to_json

POLL_S: Final = 0.5
_MOST_NUMBER: Final = 1e15
_RETRY_S: Final = 2.0

T = TypeVar("T")


class UnusableResult(Exception):
    """What a worker has sent is no result of a trial."""


class FleetTrials:
    """Makes a trial on a worker; see ``newel.evals.run.TryTask``. ``begin`` is called with the name of a task when a worker begins a trial
    of it, ``report`` with a line for the user.
    """

    def __init__(
        self,
        engine: FleetEngine,
        plan: RunPlan,
        begin: Callable[[str], None],
        report: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._begin = begin
        self._report = report
        self._waiting: dict[str, _WaitingTrial] = {}
        self._packed: dict[str, bytes] = {}
        self._writing = anyio.CapacityLimiter(2)  # each takes memory
        self._is_unreachable = False

    async def prepare(self) -> None:
        """Announce the run, set its budget, and warn if no worker would run its trials. Raises ``EngineError``."""
        await self._engine.fleets.begin(self._plan.id, EVAL_TRIAL, len(self._plan.tasks) * self._plan.repeats)
        if self._plan.max_cost is not None:
            await self._engine.budgets.set(self._plan.id, max_cost=self._plan.max_cost, max_tokens=None)
        wanted = set(self._plan.labels)
        workers = [each for each in await self._engine.workers() if each.alive and not each.draining]
        if not any(wanted <= set(worker.labels) for worker in workers):
            labels = f" --labels {','.join(self._plan.labels)}" if wanted else ""
            self._report(f"No worker is ready for these trials; they wait for one: `newel worker{labels}`.")

    async def __call__(self, task: Task, repeat: int, place: Path) -> TrialResult:
        """Raises ``BudgetSpent``, and ``PackingError`` for a task that is too large."""
        if task.name not in self._packed:
            self._packed[task.name] = await anyio.to_thread.run_sync(pack_task, task.folder)
        plan = self._plan
        trial = EvalTrialJob(
            fleet=plan.id,
            task=task.name,
            repeat=repeat,
            digest=task.digest,
            files=self._packed[task.name],
            model=plan.model,
            thinking=plan.thinking,
            tool_calls=plan.tool_calls,
            timeout=plan.timeout,
        )
        submit = partial(
            self._engine.submit,
            EVAL_TRIAL,
            to_json(trial),
            queue=trial.key,
            key=trial.key,
            labels=plan.labels,
        )
        job = await self._until_reached(submit)
        waiting = self._waiting[job] = _WaitingTrial(task.name)
        try:
            await waiting.ended.wait()
        finally:
            del self._waiting[job]
        return await self._collect(job, task, repeat, place)

    async def watch(self) -> None:
        """Find out which trials have begun and ended, until cancelled."""
        while True:
            jobs = list(self._waiting)
            states = await self._until_reached(partial(self._engine.states, jobs)) if jobs else {}
            for job in jobs:
                state, waiting = states.get(job), self._waiting.get(job)
                if waiting is None:
                    continue
                if state is None or state in FINAL:
                    waiting.ended.set()
                if state == "running" and not waiting.has_begun:
                    waiting.has_begun = True
                    self._begin(waiting.task)
            await anyio.sleep(POLL_S)

    async def _collect(self, job: str, task: Task, repeat: int, place: Path) -> TrialResult:
        found = await self._until_reached(partial(self._engine.get, job))
        if found is None:
            return invalid(task, repeat, "Its job was removed from the database.")
        if found.state == "failed" and found.reason == OVER_BUDGET:
            raise BudgetSpent(OVER_BUDGET)
        if found.state != "done":
            return invalid(task, repeat, found.reason or f"Its job is {found.state}.")
        try:
            result, packed = await self._read(found)
            await anyio.to_thread.run_sync(_replace_files, packed, place, limiter=self._writing)
            return _checked(result, task, repeat)
        except (UnusableResult, PackingError) as error:
            return invalid(task, repeat, f"What the worker has sent cannot be used: {error}")

    async def _read(self, job: Job) -> tuple[TrialResult, bytes]:
        """The result of a trial, and its packed files."""
        (end,) = await self._read_events(job, job.seq - 1)
        if not isinstance(end, TrialEnd):
            raise UnusableResult("There is no result.")
        if not 0 <= end.pieces <= min(job.seq - 1, MOST_PACKED // PIECE + 1):
            raise UnusableResult("It has too many files.")
        packed = bytearray()
        seq = job.seq - 1 - end.pieces
        while seq < job.seq - 1:
            for event in await self._read_events(job, seq):
                if isinstance(event, TrialPiece):
                    packed += event.data
                seq += 1
        return end.result, bytes(packed)

    async def _read_events(self, job: Job, after: int) -> Sequence[TrialPiece | TrialEnd]:
        """The next event, and perhaps some more."""
        entries = await self._until_reached(partial(self._engine.read, job.id, after, limit=2))
        if not entries or any(len(entry.data) > 2 * PIECE for entry in entries):
            raise UnusableResult("An event is missing or too long.")
        try:
            return [decode_event(entry.data) for entry in entries]
        except (msgspec.MsgspecError, ValueError) as error:
            raise UnusableResult(str(error)) from error

    async def _until_reached(self, call: Callable[[], Awaitable[T]]) -> T:
        """The answer of the database, also if it is unavailable for a while: the workers go on."""
        while True:
            try:
                answer = await call()
            except EngineError as error:
                if not self._is_unreachable:
                    self._report(f"Waiting for the database. {error}")
                self._is_unreachable = True
                await anyio.sleep(_RETRY_S)
                continue
            self._is_unreachable = False
            return answer


class _WaitingTrial:
    """A trial whose job has not ended."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.ended = anyio.Event()
        self.has_begun = False


def _replace_files(packed: bytes, place: Path) -> None:
    remove_folder(place)  # of a run that was killed meanwhile
    unpack_trial(packed, place)


def _checked(result: TrialResult, task: Task, repeat: int) -> TrialResult:
    """The result as one of this trial. Raises ``UnusableResult`` for one that no trial has."""
    numbers = [
        value for name in Metrics.__struct_fields__ if (value := getattr(result.metrics, name)) is not None
    ]
    if not all(math.isfinite(number) and 0 <= number <= _MOST_NUMBER for number in numbers):
        raise UnusableResult("It has impossible figures.")
    has_passed = result.end != "invalid" and not any(check.problem for check in result.checks)
    return msgspec.structs.replace(
        result, task=task.name, repeat=repeat, size=task.size, passed=result.passed and has_passed
    )
