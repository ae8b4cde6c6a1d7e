"""``LazyConnection``: a connection that is made by the first request, and again by the next one after a failure."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio

from newel.agent.errors import WorkspaceError
from newel.concurrency import background_tasks
from newel.workspace.port import ProgramEnded
from newel.workspace.ssh.connection import ConnectionState, SshConnection, connected
from newel.workspace.ssh.target import Target

TIMEOUT_S: Final = 20.0
"""Seconds that a request waits for a lost host."""


class LazyConnection:
    """Use ``open``. ``get`` returns the connection; ``current`` is None while there is none.

    idle ──get──► connecting ──► connected ──lost──► (reconnecting, in SshConnection) ──► failed
      ▲                │                                                                    │
      └── every waiting ``get`` raises ◄────────────────────────────────────────────────────┘
    """

    def __init__(self, target: Target, config: str | None) -> None:
        self.target = target
        self.current: SshConnection | None = None
        self.state = ConnectionState("connecting")
        self._config = config
        self._failure: WorkspaceError | None = None
        self._requested = anyio.Event()
        self._resolved = anyio.Event()
        self._subscribers: list[Callable[[], None]] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, target: Target, *, config: str | None = None) -> AsyncGenerator[LazyConnection]:
        """Connects until the block ends. ``config`` is a file that ssh reads instead of the user's."""
        lazy = cls(target, config)
        async with background_tasks(lazy._connect):
            yield lazy

    def watch(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after each change of ``state``."""
        self._subscribers.append(callback)

    async def get(self) -> SshConnection:
        """Raises ``WorkspaceError``."""
        while self.current is None:
            resolved = self._resolved
            self._requested.set()
            await resolved.wait()
            if self.current is None and self._failure is not None:
                raise self._failure
        return self.current

    # -- what Ollama on the host needs (``newel.providers.ollama.cli.Programs``) -------------------

    @property
    def place(self) -> str:
        return self.target.login

    async def run_program(
        self, argv: Sequence[str], /, *, stdin: bytes, on_stdout: Callable[[bytes], Awaitable[None]]
    ) -> ProgramEnded:
        return await (await self.get()).run_program(argv, stdin=stdin, on_stdout=on_stdout)

    async def tunnel(self, port: int) -> str:
        return await (await self.get()).tunnel(port)

    # -- the connection ---------------------------------------------------------------------------

    async def _connect(self) -> None:
        while True:
            await self._requested.wait()
            try:
                async with connected(
                    self.target, config=self._config, reconnect_timeout=TIMEOUT_S, on_state=self._on_state
                ) as self.current:
                    self._resolve(None)
                    await anyio.sleep_forever()
            except WorkspaceError as error:
                self._on_state(ConnectionState("failed"))
                self._resolve(error)
            finally:
                self.current = None

    def _resolve(self, failure: WorkspaceError | None) -> None:
        """Wake all waiting requests; the next one connects again after a failure."""
        self._failure, self._requested = failure, anyio.Event()
        self._resolved.set()
        self._resolved = anyio.Event()

    def _on_state(self, state: ConnectionState) -> None:
        self.state = state
        for callback in self._subscribers:
            callback()
