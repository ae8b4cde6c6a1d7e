"""Makes the trials of evaluations on one machine.

A trial has no effect outside of its folder. So nothing of it is kept until it has ended: a worker that dies leaves nothing, and the next
one begins it again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import new_id
from newel.evals.packed_files import pack_trial, unpack_task
from newel.evals.run import OVER_BUDGET
from newel.evals.task import Task, TaskError, is_name, load_task
from newel.evals.trial import TrialResult
from newel.fleet.engine import FleetEngine
from newel.fleet.eval_job import MOST_ATTEMPTS, PIECE, EvalTrialJob, TrialEnd, TrialPiece, decode_event
from newel.fleet.snapshot_repository import check_job
from newel.jobs.engine import EngineError, JobOutcome, Lease
from newel.jobs.worker import given_up
from newel.storage.folder_removal import remove_folder
from newel.text.json import to_json

RETRY_AFTER_S: Final = 20.0
_LEFT_S: Final = 2 * 86_400.0
"""No trial takes so long: its folder is of a worker that was killed."""

MakeTrial = Callable[[EvalTrialJob, Task, Path], Awaitable[TrialResult]]
"""Makes a trial of a task in a folder. Raises ``ModelUnavailable``, and other ``NewelError`` for what makes it invalid."""


class ModelUnavailable(NewelError):
    """The model's server gives no answer now, but perhaps later, or on another machine."""


class EvalTrialRunner:
    """The handler of these jobs; see ``newel.jobs.worker.Handler``. ``root`` has the folders of trials; ``mask`` replaces the secrets of
    this machine in what is sent.
    """

    def __init__(
        self, engine: FleetEngine, root: Path, make_trial: MakeTrial, mask: Callable[[bytes], bytes]
    ) -> None:
        self._engine = engine
        self._root = root
        self._make_trial = make_trial
        self._mask = mask

    async def __call__(self, lease: Lease) -> JobOutcome:
        try:
            return await self._run(lease)
        except EngineError as error:  # the database is unavailable: it says nothing about the trial
            return JobOutcome(state="retry", reason=str(error), delay=RETRY_AFTER_S)

    async def _run(self, lease: Lease) -> JobOutcome:
        check_job(lease.job)  # its folder is removed
        job = msgspec.json.decode(lease.params, type=EvalTrialJob)
        if (ended := await self._find_end(lease)) is not None:
            return _outcome_of(ended.result)
        if lease.attempt > MOST_ATTEMPTS:
            return JobOutcome(state="failed", reason=given_up(MOST_ATTEMPTS))
        spending = await self._engine.budgets.spending(job.fleet)
        if spending is not None and spending.max_cost is not None and spending.cost >= spending.max_cost:
            return JobOutcome(state="failed", reason=OVER_BUDGET)
        folder = self._root / lease.job
        try:
            return await self._run_in(folder, lease, job)
        except ModelUnavailable as error:
            if lease.attempt >= MOST_ATTEMPTS:
                raise
            return JobOutcome(state="retry", reason=str(error), delay=RETRY_AFTER_S)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove_folder, folder)

    async def _find_end(self, lease: Lease) -> TrialEnd | None:
        """The last event, if an earlier worker died between it and the end of the job."""
        if not lease.seq:
            return None
        (last,) = await self._engine.read(lease.job, lease.seq - 1, limit=1)
        event = decode_event(last.data)
        return event if isinstance(event, TrialEnd) else None

    async def _run_in(self, folder: Path, lease: Lease, job: EvalTrialJob) -> JobOutcome:
        task = await anyio.to_thread.run_sync(_unpack, folder, job)
        place = folder / "trial"
        result = await self._make_trial(job, task, place)
        packed = await anyio.to_thread.run_sync(partial(pack_trial, place, self._mask))
        await self._count(job, result)
        events = [to_json(TrialPiece(packed[at : at + PIECE])) for at in range(0, len(packed), PIECE)]
        events.append(self._mask(to_json(TrialEnd(result, len(events)))))
        seq = lease.seq
        for event in events:  # one at a time: other jobs of this worker write, too
            seq = await self._engine.append(lease, [event], expect_seq=seq)
        return _outcome_of(result)

    async def _count(self, job: EvalTrialJob, result: TrialResult) -> None:
        """Count what a trial has cost for the budget of its run. One that is made twice has cost twice."""
        request, metrics = new_id(), result.metrics
        tokens = (metrics.input_tokens or 0) + (metrics.output_tokens or 0)
        await self._engine.budgets.begin(request, "", None)
        await self._engine.budgets.end(request, job.fleet, cost=metrics.cost or 0.0, tokens=tokens)


def remove_old_trials(root: Path) -> None:
    """Remove what workers that were killed have left in the folder of trials. Blocks."""
    with contextlib.suppress(OSError):
        for folder in root.iterdir():
            if folder.stat().st_mtime < time.time() - _LEFT_S:
                remove_folder(folder)


def _outcome_of(result: TrialResult) -> JobOutcome:
    ended = "invalid" if result.end == "invalid" else "passed" if result.passed else "failed"
    return JobOutcome(state="done", result=ended)


def _unpack(folder: Path, job: EvalTrialJob) -> Task:
    """Write the task to the folder of its trial. Blocks. Raises ``NewelError``."""
    if not is_name(job.task):
        raise TaskError(f"{job.task[:100]!r} is not the name of a task.")
    remove_folder(folder)  # of a worker that was killed
    unpack_task(job.files, folder / job.task)
    task = load_task(folder / job.task)
    if task.digest != job.digest:
        raise TaskError(f"{job.task} has not arrived as it was sent.")
    return task if job.timeout is None else msgspec.structs.replace(task, timeout=job.timeout)
