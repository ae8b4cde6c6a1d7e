"""Carrying out jobs: claim, work, keep the lease, finish."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from anyio.abc import TaskStatus

from newel.agent.errors import NewelError
from newel.agent.messages import new_id
from newel.concurrency import first_error, task_group
from newel.jobs.engine import Engine, EngineError, JobOutcome, Lease, LeaseLost

Handler = Callable[[Lease], Awaitable[JobOutcome]]
"""Carries out one job. Is cancelled if the job was cancelled or its lease lost, and when the worker is."""

MAX_ATTEMPTS = 10
GIVEN_UP = f"given up after {MAX_ATTEMPTS} attempts: the server died each time"
RENEW_EVERY = 1.0
"""Seconds between two looks at whether the leases still hold."""
_LONG = 3600.0
_PAUSES = (1.0, 30.0)
"""Seconds to wait for an engine that cannot work: at first, and at most."""

T = TypeVar("T")


class Worker:
    """Carries out up to ``slots`` jobs at a time, each by the handler of its kind; no job's failure touches another.

    When the worker is cancelled its handlers are, and their jobs stay running: the next owner of the engine goes on
    with them. Each ``renew_every`` seconds it says that it is still there, and learns what was cancelled. ``failed`` is told
    why a job failed that had no handler, got none any more, or whose handler raised.
    """

    def __init__(
        self,
        engine: Engine,
        handlers: Mapping[str, Handler],
        *,
        slots: int,
        renew_every: float = RENEW_EVERY,
        failed: Callable[[Lease, str], None] = lambda _, __: None,
    ) -> None:
        self._engine = engine
        self._handlers = handlers
        self._slots = slots
        self._renew_every = renew_every
        self._failed = failed
        self._name = f"worker-{new_id()[:8]}"
        self._running: dict[str, tuple[Lease, anyio.CancelScope]] = {}
        self._freed = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Work until cancelled."""
        async with task_group() as tasks:
            tasks.start_soon(self._keep_leases)
            task_status.started()
            while True:
                for lease in await self._claim():
                    scope = anyio.CancelScope()
                    self._running[lease.job] = lease, scope
                    tasks.start_soon(self._carry_out, lease, scope)

    async def _claim(self) -> list[Lease]:
        while (free := self._slots - len(self._running)) <= 0:
            self._freed = anyio.Event()
            await self._freed.wait()
        return await _patiently(partial(self._engine.claim, free, self._name, wait=_LONG))

    async def _carry_out(self, lease: Lease, scope: anyio.CancelScope) -> None:
        try:
            outcome = JobOutcome(state="failed", reason="The run was cancelled.")
            with scope:
                outcome = await self._outcome(lease)
            await _patiently(partial(self._finish, lease, outcome))
        finally:
            del self._running[lease.job]
            self._freed.set()

    async def _outcome(self, lease: Lease) -> JobOutcome:
        handler = self._handlers.get(lease.kind)
        if handler is None:
            reason = f"No handler is registered for job kind '{lease.kind}'."
        elif lease.attempt > MAX_ATTEMPTS:
            reason = GIVEN_UP
        else:
            try:
                return await handler(lease)
            except Exception as error:  # noqa: BLE001 — whatever a handler raises ends its own job only
                reason = _words(error)
        self._failed(lease, reason)
        return JobOutcome(state="failed", reason=reason)

    async def _finish(self, lease: Lease, outcome: JobOutcome) -> None:
        # Work that came to its end must be known to have, also when the worker is told to go just now.
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(LeaseLost):  # it is somebody else's to finish
                await self._engine.finish(lease, outcome)

    async def _keep_leases(self) -> None:
        while True:
            await anyio.sleep(self._renew_every)
            leases = [lease for lease, _ in self._running.values()]
            if leases:
                for job in await _patiently(partial(self._engine.renew, leases)):
                    if job in self._running:
                        self._running[job][1].cancel()


def _words(failure: Exception) -> str:
    """Why a handler failed. Of what nobody meant to raise only the kind and the place: its words may quote anything."""
    error = first_error(failure)
    if isinstance(error, NewelError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"internal error: {type(error).__name__} in {Path(place.filename).name}, line {place.lineno}"


async def _patiently(call: Callable[[], Awaitable[T]]) -> T:
    """What ``call`` gives, as soon as the engine can work: a full disk ends no run that is under way."""
    pause, longest = _PAUSES
    while True:
        try:
            return await call()
        except EngineError:
            await anyio.sleep(pause)
            pause = min(2 * pause, longest)
