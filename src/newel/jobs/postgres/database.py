"""Connections to a database: each call is repeated while the database cannot be reached, and ends in time."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import anyio
import anyio.lowlevel
import asyncpg  # pyright: ignore[reportMissingTypeStubs]  # it has none

from newel.jobs.engine import EngineError
from newel.jobs.postgres.failures import (
    DATABASE_ERRORS,
    REPEATABLE_ERRORS,
    DatabaseUnavailable,
    describe,
    place_of,
)

MAX_CONNECTIONS: Final = 7
"""At once, besides the one that listens."""
CONNECT_S: Final = 5.0
CALL_S: Final = 10.0
"""The longest that one try of a call may take."""
PATIENCE_S: Final = 10.0
"""How long a call is repeated while the database cannot be reached."""
_DELAYS_S: Final = (0.05, 1.0)
_SETTINGS: Final = {
    "application_name": "newel",
    "default_transaction_isolation": "read committed",  # the functions need a new snapshot for each statement
    "jit": "off",
}

T = TypeVar("T")
_connect: Callable[..., Awaitable[Any]] = asyncpg.connect  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
Connection = Any
"""An ``asyncpg.Connection``, whose methods have no types."""
Call = Callable[[Connection], Awaitable[T]]
"""Queries in a connection. They may be repeated, even if an earlier try has succeeded."""


class Database:
    """Up to ``MAX_CONNECTIONS`` connections, made when needed."""

    def __init__(self, url: str) -> None:
        self.place = place_of(url)
        self._url = url
        self._idle: list[Connection] = []
        self._limiter = anyio.Semaphore(MAX_CONNECTIONS)
        self._closed = False

    async def call(self, call: Call[T], *, patience: float = PATIENCE_S, within: float = CALL_S) -> T:
        """The result of a call, which a cancellation does not interrupt. It is repeated for ``patience`` seconds; each try ends within
        ``within``. Raises ``DatabaseUnavailable``, and other ``EngineError``.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        deadline = anyio.current_time() + patience
        delay, longest = _DELAYS_S
        while True:
            self._check_open()
            try:
                return await self._try(call, within)
            except DATABASE_ERRORS as error:
                self._check_open()
                failure = describe(self.place, error)
                may_repeat = isinstance(failure, DatabaseUnavailable) or isinstance(error, REPEATABLE_ERRORS)
                if not may_repeat or anyio.current_time() + delay > deadline:
                    raise failure from error
            await anyio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 — to spread the calls
            delay = min(2 * delay, longest)

    async def rows(
        self, query: str, *values: object, patience: float = PATIENCE_S, within: float = CALL_S
    ) -> list[Any]:
        """The rows of one query; see ``call``."""

        async def fetch(connection: Connection) -> list[Any]:
            return await connection.fetch(query, *values)

        return await self.call(fetch, patience=patience, within=within)

    async def value(self, query: str, *values: object, within: float = CALL_S) -> Any:
        """The first value of the first row."""
        return (await self.rows(query, *values, within=within))[0][0]

    async def connect(self) -> Connection:
        """A connection of the caller's own."""
        with anyio.fail_after(CONNECT_S + 1):
            return await _connect(self._url, timeout=CONNECT_S, server_settings=_SETTINGS)

    def close(self) -> None:
        """Close the connections; later calls raise ``EngineError``."""
        self._closed = True
        self._drop_idle()

    async def _try(self, call: Call[T], within: float) -> T:
        with anyio.fail_after(within, shield=True):
            async with self._limiter:
                connection = await self._take()
                try:
                    result = await call(connection)
                except asyncpg.PostgresError:
                    self._put(connection)
                    raise
                except BaseException:
                    # What state it is in is unknown, and a network that fails one connection fails all.
                    connection.terminate()
                    self._drop_idle()
                    raise
                self._put(connection)
                return result

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await self.connect()

    def _put(self, connection: Connection) -> None:
        if self._closed:
            connection.terminate()
        elif not connection.is_closed():
            self._idle.append(connection)

    def _drop_idle(self) -> None:
        for connection in self._idle:
            with contextlib.suppress(Exception):  # it is of no use any more
                connection.terminate()
        self._idle.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError(f"The engine {self.place} was closed.")


def poll_interval() -> float:
    """Seconds until a waiting process asks again: each at other times."""
    return random.uniform(0.1, 0.25)  # noqa: S311
