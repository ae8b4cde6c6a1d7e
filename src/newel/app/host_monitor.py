"""The way to a host for those who work there in the browser: how it is, whoever asks, and no longer waited for than a person does."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio

from newel.agent.errors import HostUnreachable, WorkspaceError
from newel.workspace.ssh.host_monitor import HostState

if TYPE_CHECKING:
    from newel.workspace.ssh.connection import SshConnection
    from newel.workspace.ssh.supervisor import ConnectionState

PATIENCE: Final = 3.0
"""Seconds for which a person's request waits for a host that went away; what agents do waits longer."""

LOOK_AGAIN: Final = 10.0
LOOK_AFTER_FAILURE: Final = 60.0
"""Seconds between two looks at a host: each is a request, and after a failure a login, of which hosts count those that fail."""


class SshHostMonitor:
    """Fulfils ``newel.runs.host_status.HostMonitor`` over a connection."""

    def __init__(self, connection: SshConnection) -> None:
        self._connection = connection
        self._latency: int | None = None
        self._wanted = anyio.Event()
        self._gone_at = math.inf
        connection.on_state(self._note)

    def _note(self, state: ConnectionState) -> None:
        if state.name in {"up", "slow"}:
            self._gone_at = math.inf
        elif self._gone_at == math.inf:
            self._gone_at = anyio.current_time()

    @property
    def state(self) -> HostState:
        target, now = self._connection.target, self._connection.state
        is_up = now.name == "up"
        return HostState(
            user=target.user or "",
            host=self._connection.host,
            folder=self._connection.facts.root,
            state="lost" if now.name == "connecting" else now.name,
            reason="" if is_up else now.reason,
            latency=self._latency if is_up else None,
        )

    async def keep(self, tell: Callable[[], None], is_watched: Callable[[], bool]) -> None:
        told = self.state

        def note() -> None:
            nonlocal told
            if self.state != told:
                told = self.state
                tell()

        def changed(state: ConnectionState) -> None:
            if state.name == "lost":
                self._wanted.set()  # nobody need ask for anything there to get it back
            note()

        end = self._connection.on_state(changed)
        try:
            while True:
                if not self._connection.is_busy:
                    await self._look()
                    note()
                await self._pause(is_watched)
        finally:
            end()

    async def _pause(self, is_watched: Callable[[], bool]) -> None:
        """Until it is time to look again, or somebody wants the host back."""
        self._wanted = anyio.Event()  # what was wanted until now was just tried
        while True:
            pause = LOOK_AFTER_FAILURE if self._connection.state.name == "failed" else LOOK_AGAIN
            with anyio.move_on_after(pause):
                await self._wanted.wait()
            if self._wanted.is_set() or is_watched():
                return

    async def _look(self) -> None:
        try:
            if self._connection.state.name != "up":
                await self._connection.ask(":")  # what it takes to connect is no request's time
            self._latency = math.ceil(await self._connection.ping() * 1000)
        except WorkspaceError:
            pass  # the state says so

    @contextmanager
    def patience(self) -> Generator[None]:
        scope = anyio.CancelScope()

        def note(_: ConnectionState) -> None:
            scope.deadline = self._gone_at + PATIENCE

        note(self._connection.state)
        end = self._connection.on_state(note)
        try:
            with scope:
                yield
        finally:
            end()
        if scope.cancelled_caught:
            self._wanted.set()
            self._connection.hurry()
            raise HostUnreachable(_words(self.state))


def _words(state: HostState) -> str:
    reason = f": {state.reason.removesuffix('.')}" if state.reason else ""
    return f"{state.host} cannot be reached now{reason}. Newel tries to get the connection back. Try it again then."
