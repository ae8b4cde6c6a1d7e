"""What jobs spend together, in the database that their workers share."""

from __future__ import annotations

from newel.jobs.placement import Spending
from newel.jobs.postgres.database import Connection, Database


class PostgresBudgets:
    """Fulfils ``newel.fleet.engine.Budgets``; see there."""

    def __init__(self, database: Database, worker: str) -> None:
        self._database = database
        self._worker = worker

    async def set(self, name: str, *, max_cost: float | None, max_tokens: int | None) -> None:
        await self._value("SELECT newel.set_budget($1, $2, $3)", name, max_cost, max_tokens)

    async def spending(self, name: str) -> Spending | None:
        query = "SELECT max_cost, max_tokens, cost, tokens FROM newel.budgets WHERE name = $1"

        async def fetch(connection: Connection) -> Spending | None:
            row = await connection.fetchrow(query, name)
            return None if row is None else Spending(**row)

        return await self._database.call(fetch)

    async def begin(self, request: str, server: str, slots: int | None) -> bool:
        query = "SELECT newel.begin_request($1, $2, $3, $4)"
        return bool(await self._value(query, request, server, self._worker, slots))

    async def end(self, request: str, name: str, *, cost: float, tokens: int) -> None:
        await self._value("SELECT newel.end_request($1, $2, $3, $4)", request, name, cost, tokens)

    async def _value(self, query: str, *values: object) -> object:
        async def fetch(connection: Connection) -> object:
            return await connection.fetchval(query, *values)

        return await self._database.call(fetch)
