"""Installs and migrates the schema."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from newel.jobs.engine import EngineError
from newel.jobs.postgres.database import Connection
from newel.jobs.postgres.failures import NO_RIGHTS

MIGRATIONS: Final = (
    ("tables.sql", "functions.sql", "budgets.sql"),
    ("fleets.sql",),
    ("retention.sql",),
    ("claims.sql",),
    ("live.sql",),
    ("ids.sql",),
)
"""The scripts that lead to each next version, the first from an empty database. Only append to them."""

ABSURD: Final = "0.5.1"
"""The version of absurd's schema that these need."""

_LOCK: Final = 1852143468


async def migrate(connection: Connection, place: str) -> None:
    """Bring a database to this version. Raises ``EngineError`` if it has a newer one."""
    if await _version(connection, place) == len(MIGRATIONS):
        return
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            await _migrate(connection, place)
    except NO_RIGHTS as error:
        raise EngineError(
            f"The database {place} lacks this version of Newel's schema, and this user may not install it: {error}. "
            "Open it once as the database's owner, for instance with `newel fleet status`."
        ) from error


async def _migrate(connection: Connection, place: str) -> None:
    version = await _version(connection, place)
    if version == 0:
        await _install_absurd(connection, place)
        await connection.execute("CREATE SCHEMA IF NOT EXISTS newel")
        await connection.execute(
            "CREATE TABLE newel.version (version integer NOT NULL, absurd text NOT NULL)"
        )
        await connection.execute("INSERT INTO newel.version VALUES (0, $1)", ABSURD)
    for scripts in MIGRATIONS[version:]:
        for script in scripts:
            await connection.execute(files("newel.jobs.postgres").joinpath(script).read_text("utf-8"))
    await connection.execute("UPDATE newel.version SET version = $1", len(MIGRATIONS))


async def _version(connection: Connection, place: str) -> int:
    """0 without a schema."""
    # Not to_regclass: it may answer from a cache that does not know what another process did while this one waited.
    tables = "SELECT 1 FROM pg_tables WHERE schemaname = 'newel' AND tablename = 'version'"
    if await connection.fetchval(tables) is None:
        return 0
    version = await connection.fetchval("SELECT version FROM newel.version")
    if version > len(MIGRATIONS):
        raise EngineError(
            f"The database {place} belongs to a newer Newel: its schema has version {version}, and this Newel knows "
            f"{len(MIGRATIONS)}. Update Newel on this machine."
        )
    return version


async def _install_absurd(connection: Connection, place: str) -> None:
    if await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = 'absurd'") is None:
        from absurdctl import BUNDLED_SCHEMA_SQL  # pyright: ignore[reportMissingTypeStubs]  # it has no types

        await connection.execute(BUNDLED_SCHEMA_SQL)
    found = await connection.fetchval("SELECT absurd.get_schema_version()")
    if found != ABSURD:
        raise EngineError(
            f"The database {place} has absurd {found}, and Newel needs {ABSURD}. Give Newel a database of its own."
        )
