"""Deletes jobs that have ended, and notes what has to be removed from the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from newel.jobs.engine import FINAL
from newel.jobs.placement import JobPlace
from newel.jobs.postgres.database import Database

BATCH: Final = 50
"""Jobs that one transaction deletes: their journals may be long."""
WITHIN_S: Final = 60.0

_PLACES: Final = """
    SELECT id, state, machine, extract(epoch FROM clock_timestamp() - updated)::float8 AS age
    FROM newel.jobs WHERE id = ANY ($1)
"""


class PostgresRetention:
    """Fulfils ``newel.fleet.engine.Retention``; see there."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def delete(self, jobs: Sequence[str]) -> int:
        count = 0
        for start in range(0, len(jobs), BATCH):
            batch = list(jobs[start : start + BATCH])
            count += await self._database.value("SELECT newel.delete_jobs($1)", batch, within=WITHIN_S)
        return count

    async def count_ended(self, age: float) -> int:
        return await self._database.value("SELECT count(*) FROM newel.ended_jobs($1)", float(age))

    async def delete_ended(self, age: float) -> int:
        return await self._repeat("SELECT newel.delete_ended($1, $2)", float(age), BATCH)

    async def expire(self, days: int) -> int:
        return await self._repeat("SELECT newel.expire($1, $2)", days, BATCH)

    async def claim_removals(self, limit: int = BATCH) -> list[str]:
        return [row[0] for row in await self._database.rows("SELECT newel.claim_removals($1)", limit)]

    async def finish_removals(self, names: Sequence[str]) -> None:
        await self._database.rows("SELECT newel.finish_removals($1)", list(names))

    async def places(self, jobs: Sequence[str]) -> dict[str, JobPlace]:
        rows = await self._database.rows(_PLACES, list(jobs))
        return {
            row["id"]: JobPlace(machine=row["machine"], ended=row["age"] if row["state"] in FINAL else None)
            for row in rows
        }

    async def _repeat(self, query: str, *values: object) -> int:
        count = 0
        while done := await self._database.value(query, *values, within=WITHIN_S):
            count += done
        return count
