"""What jobs spend together, in the database that their workers share."""

from __future__ import annotations

from newel.jobs.placement import Spending
from newel.jobs.postgres.database import Database


class PostgresBudgets:
    """Fulfils ``newel.fleet.engine.Budgets``; see there."""

    def __init__(self, database: Database, worker: str) -> None:
        self._database = database
        self._worker = worker

    async def set(self, name: str, *, max_cost: float | None, max_tokens: int | None) -> None:
        await self._database.value("SELECT newel.set_budget($1, $2, $3)", name, max_cost, max_tokens)

    async def spending(self, name: str) -> Spending | None:
        query = "SELECT max_cost, max_tokens, cost, tokens FROM newel.budgets WHERE name = $1"
        rows = await self._database.rows(query, name)
        return Spending(**rows[0]) if rows else None

    async def begin(self, request: str, server: str, slots: int | None) -> bool:
        query = "SELECT newel.begin_request($1, $2, $3, $4)"
        return bool(await self._database.value(query, request, server, self._worker, slots))

    async def end(self, request: str, name: str, *, cost: float, tokens: int) -> None:
        await self._database.value("SELECT newel.end_request($1, $2, $3, $4)", request, name, cost, tokens)
