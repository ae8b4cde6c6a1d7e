"""``HostMonitor``: the health of a connection for the user, and a deadline for requests that the user waits for."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, Literal

import anyio

from newel.agent.errors import HostUnreachable, WorkspaceError
from newel.agent.messages import Wire
from newel.concurrency import background_tasks
from newel.text.format import as_clause

if TYPE_CHECKING:
    from newel.workspace.ssh.connection import ConnectionState, SshConnection

REQUEST_DEADLINE_S: Final = 3.0
"""Seconds that a user's request waits for a lost host; requests of agents wait longer."""
PING_INTERVAL_S: Final = 10.0
RETRY_INTERVAL_S: Final = 60.0
"""After a failure: each retry is a login, and hosts count failed ones."""


class HostState(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """The host of a project, in whose ``folder`` the agents work. A ``slow`` host has not answered for some seconds, and Newel
    waits for it. While the connection is ``lost`` Newel reconnects; once that has ``failed`` it tries again with the next
    request. ``reason`` explains the state. ``latency`` is that of a request in milliseconds, None if unknown.
    """

    user: str
    host: str
    folder: str
    state: Literal["up", "slow", "lost", "failed"] = "up"
    reason: str = ""
    latency: int | None = None


class HostMonitor:
    """Monitors one connection. ``run`` keeps ``state`` up to date."""

    def __init__(self, connection: SshConnection) -> None:
        self._connection = connection
        self._latency: int | None = None
        self._requested = anyio.Event()
        """Set when the host is needed before the next ping is due."""
        self._lost_at = math.inf
        connection.listeners.append(self._on_state)

    def _on_state(self, state: ConnectionState) -> None:
        if state.name in {"up", "slow"}:
            self._lost_at = math.inf
        elif self._lost_at == math.inf:
            self._lost_at = anyio.current_time()

    @property
    def state(self) -> HostState:
        target, now = self._connection.target, self._connection.state
        is_up = now.name == "up"
        return HostState(
            user=target.user or "",
            host=self._connection.host,
            folder=self._connection.info.root,
            state="lost" if now.name == "connecting" else now.name,
            reason="" if is_up else now.reason,
            latency=self._latency if is_up else None,
        )

    async def run(self, on_change: Callable[[], None], is_watched: Callable[[], bool]) -> None:
        """Until cancelled: report each change of the state, reconnect after a loss, and ping while ``is_watched``."""
        reported = self.state

        def report() -> None:
            nonlocal reported
            if self.state != reported:
                reported = self.state
                on_change()

        def on_state(state: ConnectionState) -> None:
            if state.name == "lost":
                self._requested.set()  # reconnect without waiting for a request
            report()

        with self._connection.listening(on_state):
            while True:
                if not self._connection.is_busy:
                    await self._ping()
                    report()
                await self._pause(is_watched)

    async def _pause(self, is_watched: Callable[[], bool]) -> None:
        """Wait until the next ping is due or the host is requested."""
        self._requested = anyio.Event()  # earlier requests were served by the ping before
        while True:
            has_failed = self._connection.state.name == "failed"
            with anyio.move_on_after(RETRY_INTERVAL_S if has_failed else PING_INTERVAL_S):
                await self._requested.wait()
            if self._requested.is_set() or is_watched():
                return

    async def _ping(self) -> None:
        try:
            if self._connection.state.name != "up":
                await self._connection.ask(":")  # the time to connect is not a request's latency
            self._latency = math.ceil(await self._connection.ping() * 1000)
        except WorkspaceError:  # the state has the reason
            pass

    @contextmanager
    def request_deadline(self) -> Generator[None]:
        """Cancel the block if the host is lost for too long. Raises ``HostUnreachable``."""
        scope = anyio.CancelScope()

        def on_state(_: ConnectionState) -> None:
            scope.deadline = self._lost_at + REQUEST_DEADLINE_S

        on_state(self._connection.state)
        with self._connection.listening(on_state), scope:
            yield
        if scope.cancelled_caught:
            self._requested.set()
            self._connection.retry_now()
            state = self.state
            reason = f": {as_clause(state.reason)}" if state.reason else ""
            raise HostUnreachable(
                f"{state.host} cannot be reached now{reason}. Newel is reconnecting. Try again once it is back."
            )

    @asynccontextmanager
    async def notices(self, notify: Callable[[str], Awaitable[None]]) -> AsyncGenerator[None]:
        """While this is open, ``notify`` is awaited with a message for each loss and recovery of the connection."""

        async def send_notices() -> None:
            from newel.workspace.ssh.connection import ConnectionState

            send, states = anyio.create_memory_object_stream[ConnectionState](math.inf)
            away = ""
            with self._connection.listening(send.send_nowait), send, states:
                async for state in states:
                    if message := _notice(state, away, self._connection.host):
                        await notify(message)
                    away = _AWAY.get(state.name, away)

        async with background_tasks(send_notices):
            yield


_AWAY: Final = {"slow": "slow", "lost": "lost", "up": ""}
"""How the user knows a host to be away after a notice; other states do not change that."""


def _notice(state: ConnectionState, away: str, host: str) -> str:
    """The message for a change, if it deserves one, to a user who knows how the host is ``away``."""
    match state.name, away:
        case "slow", "":
            return f"There is {state.reason} from {host}. Newel is waiting for it."
        case "lost", "" | "slow":
            return f"The connection to {host} is lost: {as_clause(state.reason)}. Newel is reconnecting."
        case "up", "slow":
            return f"{host} answers again."
        case "up", "lost":
            return f"The connection to {host} is back."
        case "failed", _:
            return f"There is no connection to {host}: {state.reason}"
        case _:
            return ""
