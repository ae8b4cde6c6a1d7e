"""A fleet's budget, and the share of a model server that it gets: both hold for all machines together.

Each request is begun and ended in the database of the fleet, which counts what it has cost. A job ends at the limit before its next
request; the requests that are on their way then are still paid.
"""

from __future__ import annotations

import contextlib
from typing import Final

import anyio

from newel.agent.errors import ConnectionFailed
from newel.agent.messages import AssistantMessage, new_id
from newel.agent.ports import ModelRequest, OnDelta, Provider
from newel.fleet.engine import Budgets
from newel.fleet.job import FleetJob
from newel.jobs.engine import EngineError

POLL_S: Final = 0.2
"""Between attempts to get a place at a model server."""


class BudgetedProvider:
    """A ``Provider`` whose requests wait for a place at ``server``, of which there are ``slots``, and count for the budget ``name``. A
    server that cannot be reached is no failure of the job, which goes on later: ``EngineError``.
    """

    def __init__(
        self, provider: Provider, budgets: Budgets, name: str, *, server: str, slots: int | None
    ) -> None:
        self._provider = provider
        self._budgets = budgets
        self._name = name
        self._server = server
        self._slots = slots

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """See ``Provider.complete``."""
        id_ = new_id()
        cost, tokens = 0.0, 0
        try:
            await self._begin(id_)
            message = await self._provider.complete(request, on_delta)
            cost, tokens = message.cost or 0.0, message.usage.total
        except ConnectionFailed as error:
            raise EngineError(str(error)) from error
        else:
            return message
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(id_, cost, tokens)

    async def _begin(self, request: str) -> None:
        """Wait for a place, also while the database is unavailable: a job that has lost it is cancelled."""
        while True:
            try:
                if await self._budgets.begin(request, self._server, self._slots):
                    return
            except EngineError:
                pass
            await anyio.sleep(POLL_S)

    async def _end(self, request: str, cost: float, tokens: int) -> None:
        with contextlib.suppress(EngineError):  # the next append to the journal will say it
            await self._budgets.end(request, self._name, cost=cost, tokens=tokens)


async def exceeded_budget(budgets: Budgets, job: FleetJob) -> str:
    """Why a job has to end; empty while its fleet may spend more. Raises ``EngineError``."""
    spending = await budgets.spending(job.fleet)
    if spending is None:
        return ""
    if spending.max_cost is not None and spending.cost >= spending.max_cost:
        limit, spent = f"{spending.max_cost:g} US dollars", f"{spending.cost:.2f}"
    elif spending.max_tokens is not None and spending.tokens >= spending.max_tokens:
        limit, spent = f"{spending.max_tokens:,} tokens", f"{spending.tokens:,}"
    else:
        return ""
    return f"Stopped at the limit of fleet {job.fleet}: {limit}, of which its jobs have spent {spent}."
