"""Explains why a database cannot be used."""

from __future__ import annotations

import ssl
from urllib.parse import parse_qs, urlsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]  # it has none

from newel.jobs.engine import EngineError

CONNECTION_ERRORS = (
    OSError,  # refused, no such host, no such socket, timed out
    TimeoutError,
    EOFError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.OperatorInterventionError,  # the server stops, or begins
    asyncpg.TooManyConnectionsError,
    asyncpg.InternalClientError,
)
DATABASE_ERRORS = (asyncpg.PostgresError, *CONNECTION_ERRORS)
"""All that a call of the driver raises."""
NO_RIGHTS = asyncpg.InsufficientPrivilegeError
REPEATABLE_ERRORS = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)

_REASONS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    (asyncpg.InvalidPasswordError, "refused the password. Correct it in the address, or in PGPASSWORD."),
    (
        asyncpg.InvalidAuthorizationSpecificationError,
        "does not admit this user from here: {error}. Correct the user in the address, or the server's pg_hba.conf.",
    ),
    (asyncpg.InvalidCatalogNameError, "has no such database: {error}. Create it, or correct the address."),
    (
        asyncpg.InsufficientPrivilegeError,
        "does not let this user do that: {error}. Use a user with the role newel_control or newel_worker.",
    ),
    (asyncpg.DiskFullError, "has a full disk: {error}. Free some space there."),
    (
        asyncpg.ReadOnlySQLTransactionError,
        "accepts no changes: {error}. It may be a standby: use the primary.",
    ),
    (
        (asyncpg.UndefinedFunctionError, asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError),
        "has another version of Newel's schema: {error}. Use the same version of Newel on all machines.",
    ),
    (
        ssl.SSLError,
        "could not be reached by TLS: {error}. Check `sslmode` and `sslrootcert` in the address, and the server's certificate.",
    ),
    (
        (asyncpg.ClientConfigurationError, asyncpg.TargetServerAttributeNotMatched),
        "cannot be used as the address says: {error}.",
    ),
    (asyncpg.TooManyConnectionsError, "has no free connection: {error}. Raise its max_connections."),
)


_PASSING = (asyncpg.DiskFullError, asyncpg.ReadOnlySQLTransactionError, asyncpg.TooManyConnectionsError)


class DatabaseUnavailable(EngineError):
    """The database does not answer, or cannot store anything now. It may later."""


def is_connection_error(error: Exception) -> bool:
    """Whether the connection failed, and not what it was used for."""
    return isinstance(error, CONNECTION_ERRORS) and not isinstance(
        error, ssl.SSLError | asyncpg.ClientConfigurationError | asyncpg.DataError
    )


def describe(place: str, error: Exception) -> EngineError:
    """An error of the driver, with what to do about it. ``place`` names the database without its password."""
    for kinds, words in _REASONS:
        if isinstance(error, kinds):
            kind = DatabaseUnavailable if isinstance(error, _PASSING) else EngineError
            return kind(f"The database {place} {words.format(error=_text(error))}")
    if "rejected SSL upgrade" in str(error):
        return EngineError(f"The database {place} refuses TLS. Turn it on there, or use `sslmode=prefer`.")
    if is_connection_error(error):
        return DatabaseUnavailable(
            f"The database {place} cannot be reached: {_text(error)}. Check that it runs, and the address."
        )
    return EngineError(f"The database {place} failed: {_text(error)}.")


def place_of(url: str) -> str:
    """The host, port and name of a database, for messages. Raises ``EngineError``."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise EngineError(f"The address of the database is not valid: {error}.") from error
    if parts.scheme not in {"postgresql", "postgres"}:
        raise EngineError(
            "The address of the database is not valid: it must begin with postgresql://, "
            "as in postgresql://user@host/newel?sslmode=verify-full."
        )
    host = host or parse_qs(parts.query).get("host", ["localhost"])[0]
    return f"{host}{f':{port}' if port else ''}{parts.path}"


def _text(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return (text[0].rstrip(".") if text else "") or type(error).__name__
