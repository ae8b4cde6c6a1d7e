"""The fleets of a database and their jobs: each method is one query, whose time does not depend on how many other jobs there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from newel.jobs.placement import FleetSummary, Placement
from newel.jobs.postgres.database import Database
from newel.jobs.postgres.rows import JOBS, iso, placement_of

_LAST: Final = "\U0010ffff"
"""Sorts after all that follows a prefix."""

_FLEETS: Final = """
    SELECT f.id, f.kind, f.created, f.total, s.states, s.counts, first.params
    FROM newel.fleets f
    CROSS JOIN LATERAL (SELECT params FROM newel.jobs WHERE fleet = f.id ORDER BY fleet, n LIMIT 1) AS first
    CROSS JOIN LATERAL (
        SELECT array_agg(state) AS states, array_agg(count) AS counts FROM (
            SELECT newel.shown_state(state, result) AS state, count(*) FROM newel.jobs WHERE fleet = f.id GROUP BY 1
        ) AS counted
    ) AS s
    WHERE ($1::text IS NULL OR f.kind = $1) AND f.id >= $2 AND f.id < $3
    ORDER BY f.n DESC LIMIT $4
"""
_COUNT: Final = "SELECT count(*) FROM newel.jobs j"
_MATCHING: Final = (
    " WHERE ($1::text IS NULL OR j.fleet = $1) AND ($2::text IS NULL OR j.kind = $2)"
    " AND ($3::text[] IS NULL OR newel.shown_state(j.state, j.result) = ANY ($3))"
)


class PostgresFleets:
    """Fulfils ``newel.fleet.engine.Fleets``; see there."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, fleet: str, kind: str, jobs: int) -> None:
        await self._database.rows("SELECT newel.begin_fleet($1, $2, $3)", fleet, kind, jobs)

    async def list(self, *, kind: str | None = None, prefix: str = "", limit: int = 20) -> list[FleetSummary]:
        rows = await self._database.rows(_FLEETS, kind, prefix, prefix + _LAST, limit)
        return [
            FleetSummary(
                id=row["id"],
                kind=row["kind"],
                submitted=iso(row["created"]),
                states=dict(zip(row["states"], row["counts"], strict=True)),
                total=row["total"],
                params=row["params"],
            )
            for row in rows
        ]

    async def count(self, *, kind: str | None = None) -> int:
        query = "SELECT count(*) FROM newel.fleets f WHERE ($1::text IS NULL OR kind = $1)"
        having_jobs = " AND EXISTS (SELECT FROM newel.jobs WHERE fleet = f.id)"
        return await self._database.value(query + having_jobs, kind)

    async def jobs(
        self,
        fleet: str | None = None,
        *,
        kind: str | None = None,
        states: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[Placement]:
        values = (fleet, kind, None if states is None else list(states), limit)
        # With the fleet, so that PostgreSQL does not search all newer jobs for those of the fleet.
        order = (
            " ORDER BY j.n DESC LIMIT $4" if fleet is None else " ORDER BY j.fleet DESC, j.n DESC LIMIT $4"
        )
        rows = await self._database.rows(JOBS + _MATCHING + order, *values)
        return [placement_of(row) for row in reversed(rows)]

    async def count_jobs(
        self, fleet: str | None = None, *, kind: str | None = None, states: Sequence[str] | None = None
    ) -> int:
        values = (fleet, kind, None if states is None else list(states))
        return await self._database.value(_COUNT + _MATCHING, *values)

    async def find_jobs(self, prefix: str, *, kind: str | None = None, limit: int = 2) -> list[Placement]:
        where = (
            ' WHERE j.id COLLATE "C" >= $1 AND j.id COLLATE "C" < $2 AND ($3::text IS NULL OR j.kind = $3)'
            ' ORDER BY j.id COLLATE "C" LIMIT $4'
        )
        rows = await self._database.rows(JOBS + where, prefix, prefix + _LAST, kind, limit)
        return [placement_of(row) for row in rows]
