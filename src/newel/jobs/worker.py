"""Runs jobs: claim, execute, renew the lease, finish."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from anyio.abc import TaskStatus

from newel.agent.errors import NewelError
from newel.agent.messages import new_id
from newel.concurrency import first_error, task_group
from newel.jobs.engine import Engine, EngineError, JobOutcome, Lease, LeaseLost, is_job_id, not_a_job_id

Handler = Callable[[Lease], Awaitable[JobOutcome]]
"""Runs one job. Is cancelled with the job or the worker, and when the lease is lost."""

MAX_ATTEMPTS = 10


def given_up(attempts: int) -> str:
    return f"Gave up after {attempts} attempts: the process died each time."


GIVEN_UP = given_up(MAX_ATTEMPTS)
RENEW_INTERVAL_S = 1.0
_CLAIM_WAIT_S = 3600.0
_RETRY_DELAYS_S = (1.0, 30.0)
"""While the engine is unusable: the first delay, and the longest."""

T = TypeVar("T")


class Worker:
    """Runs up to ``slots`` jobs at a time, each by the handler of its kind. A failing job affects no other.

    A cancelled worker cancels its handlers and leaves their jobs running: the next owner of the engine resumes them. One that is drained
    claims no more jobs, and ends with those that it has; ``hand_over`` queues these again for another worker. The
    worker renews its leases every ``renew_every`` seconds, and at each cancellation of a job; it notices within ``claim_wait`` seconds that
    it is drained. While ``must_wait`` says so, it claims no jobs. ``failed`` is called with the reason when a job has no handler, has used
    up its attempts, or its handler raised, ``ended`` when this worker has no more to do with a job.
    """

    def __init__(
        self,
        engine: Engine,
        handlers: Mapping[str, Handler],
        *,
        slots: int,
        name: str = "",
        renew_every: float = RENEW_INTERVAL_S,
        claim_wait: float = _CLAIM_WAIT_S,
        max_attempts: int = MAX_ATTEMPTS,
        must_wait: Callable[[], bool] = lambda: False,
        failed: Callable[[Lease, str], None] = lambda _, __: None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._handlers = handlers
        self._slots = slots
        self._renew_every = renew_every
        self._claim_wait = claim_wait
        self._max_attempts = max_attempts
        self._must_wait = must_wait
        self._failed = failed
        self._ended = ended
        self._name = name or f"worker-{new_id()[:8]}"
        self._running: list[_RunningJob] = []
        self._freed = anyio.Event()
        self._drained = False
        self._left: JobOutcome | None = None
        """The outcome of the jobs that are handed over."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run jobs until cancelled, or drained."""
        async with task_group() as tasks:
            tasks.start_soon(self._keep_leases)
            task_status.started()
            while not self._drained:
                for lease in await self._claim():
                    job = _RunningJob(lease, [each for each in self._running if each.lease.job == lease.job])
                    self._running.append(job)
                    tasks.start_soon(self._run_job, job)
            while self._running:
                await self._wait_for_slot()
            tasks.cancel_scope.cancel()

    @property
    def running(self) -> list[Lease]:
        """The jobs that it runs."""
        return [job.lease for job in self._running]

    def drain(self) -> None:
        """Claim no more jobs."""
        self._drained = True

    def hand_over(self, reason: str) -> None:
        """Stop the running jobs, and queue them again for another worker. It does not count as an attempt that failed."""
        self.drain()
        self._left = JobOutcome(state="retry", reason=reason)
        for job in self._running:
            job.scope.cancel()

    async def _claim(self) -> list[Lease]:
        while (free := self._slots - len(self._running)) <= 0:
            await self._wait_for_slot()
        if self._drained:
            return []
        if self._must_wait():
            await anyio.sleep(self._claim_wait)
            return []
        claim = partial(self._engine.claim, free, self._name, wait=self._claim_wait)
        return await _retry_until_usable(claim)

    async def _wait_for_slot(self) -> None:
        self._freed = anyio.Event()
        await self._freed.wait()

    async def _run_job(self, job: _RunningJob) -> None:
        try:
            outcome = JobOutcome(state="failed", reason="The run was cancelled.")
            if self._left is not None:  # it was claimed meanwhile
                job.scope.cancel()
            with job.scope:
                for earlier in job.earlier:
                    await earlier.ended.wait()
                outcome = await self._outcome(job.lease)
            if job.scope.cancelled_caught and self._left is not None:
                outcome = self._left
            await _retry_until_usable(partial(self._finish, job.lease, outcome))
        finally:
            self._running.remove(job)
            job.ended.set()
            self._freed.set()
            self._ended()

    async def _outcome(self, lease: Lease) -> JobOutcome:
        handler = self._handlers.get(lease.kind)
        if not is_job_id(lease.job):  # handlers name folders by it
            reason = not_a_job_id(lease.job)
        elif handler is None:
            reason = f"No handler is registered for job kind '{lease.kind}'."
        elif lease.attempt > self._max_attempts:
            reason = given_up(self._max_attempts)
        else:
            try:
                return await handler(lease)
            except LeaseLost as error:
                return JobOutcome(state="retry", reason=str(error))  # of no effect: another worker has it
            except Exception as error:  # noqa: BLE001 — an error ends only its own job
                reason = _describe(error)
        self._failed(lease, reason)
        return JobOutcome(state="failed", reason=reason)

    async def _finish(self, lease: Lease, outcome: JobOutcome) -> None:
        # Record the outcome of a finished job even if the worker is being cancelled.
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(LeaseLost):  # another worker finishes it
                await self._engine.finish(lease, outcome)

    async def _keep_leases(self) -> None:
        while True:
            # A handler may take a while to stop: do not ask about a lost job again and again meanwhile.
            jobs = [job for job in self._running if not job.is_lost]
            renew = partial(self._engine.renew, [job.lease for job in jobs], wait=self._renew_every)
            lost = await _retry_until_usable(renew)
            for job in jobs:
                if job.lease.job in lost:
                    job.is_lost = True
                    job.scope.cancel()


class _RunningJob:
    """A job, and its ``earlier`` leases: they were lost, and this worker is the first to claim it again. Their handlers have to end
    first.
    """

    def __init__(self, lease: Lease, earlier: Sequence[_RunningJob]) -> None:
        self.lease = lease
        self.earlier = earlier
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        self.is_lost = False
        """Also if it is cancelled."""


def _describe(failure: Exception) -> str:
    """Why a handler failed. Unexpected errors are described by type and place: their messages may contain secrets."""
    error = first_error(failure)
    if isinstance(error, NewelError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"internal error: {type(error).__name__} in {Path(place.filename).name}, line {place.lineno}"


async def _retry_until_usable(call: Callable[[], Awaitable[T]]) -> T:
    """The result of ``call`` as soon as the engine is usable: a full disk ends no running job."""
    delay, longest = _RETRY_DELAYS_S
    while True:
        try:
            return await call()
        except EngineError:
            await anyio.sleep(delay)
            delay = min(2 * delay, longest)
