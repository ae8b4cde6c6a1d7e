"""Tells the other processes what has changed, and hears from them. What gets lost costs them one poll."""

from __future__ import annotations

import contextlib
from typing import Final

import anyio
import msgspec

from newel.jobs.engine import EngineError
from newel.jobs.notifier import Notifier
from newel.jobs.postgres.database import Connection, Database
from newel.jobs.postgres.failures import DATABASE_ERRORS

CHANNEL: Final = "newel"
INTERVAL_S: Final = 0.1
"""At most one notification in this time: each takes a lock of the whole server."""
MAX_TOPICS: Final = 150
"""PostgreSQL limits a notification to 8,000 bytes; more topics are announced as all."""
_ALL: Final = "*"
_RETRY_S: Final = 1.0


class Bulletin:
    """Passes the topics of a notifier on, in both directions."""

    def __init__(self, database: Database, notifier: Notifier) -> None:
        self._database = database
        self._notifier = notifier
        self._topics: set[str] = set()
        self._wanted = anyio.Event()

    def post(self, *topics: str) -> None:
        self._topics.update(topics)
        self._wanted.set()

    async def send(self) -> None:
        """Send what is posted, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            topics, self._topics = self._topics, set()
            payload = _ALL if len(topics) > MAX_TOPICS else msgspec.json.encode(sorted(topics)).decode()

            async def notify(connection: Connection, payload: str = payload) -> None:
                await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)

            with contextlib.suppress(EngineError):
                await self._database.call(notify, patience=0)
            await anyio.sleep(INTERVAL_S)

    async def listen(self) -> None:
        """Notify the waiting tasks here of what others post, until cancelled."""
        while True:
            with contextlib.suppress(*DATABASE_ERRORS):
                await self._listen()
            await anyio.sleep(_RETRY_S)

    async def _listen(self) -> None:
        connection = await self._database.connect()
        ended = anyio.Event()

        def end(_: object) -> None:
            ended.set()

        try:
            connection.add_termination_listener(end)
            await connection.add_listener(CHANNEL, self._receive)
            await ended.wait()
        finally:
            connection.terminate()

    def _receive(self, _: object, __: int, ___: str, payload: str) -> None:
        if payload == _ALL:
            self._notifier.notify_all()
            return
        with contextlib.suppress(msgspec.MsgspecError):  # another program may use the channel
            for topic in msgspec.json.decode(payload, type=list[str]):
                self._notifier.notify(topic)
