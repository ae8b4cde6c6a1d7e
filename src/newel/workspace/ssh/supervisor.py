"""Keeps a shell on a host usable: connects, reconnects with growing pauses, and replaces a shell that is out of step.

The connection's first shell, the *master*, carries the SSH connection; later shells and commands are sessions on it.

    connecting ──▶ up ◀──▶ slow    no answer for a while; the connection may be intact (see ``Heartbeat``)
     ▲  ▲  │        │       │
     │  │  ├─────▶ lost ◀───┘       ssh ended, or an attempt failed; the pending request tries again after a pause
     │  └──┼─────────┘
     │     └─────▶ failed           gave up; the next request tries again
     └───────────────┘
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal

import anyio
import anyio.abc
import msgspec

from newel.agent.errors import HostUnreachable, WorkspaceError
from newel.workspace.ssh.command_line import SshCommand
from newel.workspace.ssh.connection_errors import SshProblem, explain
from newel.workspace.ssh.protocol import HostInfo
from newel.workspace.ssh.shell import SHELL_COMMAND, HostShell, ShellEnded

LOGIN_TIMEOUT: Final = 45.0
"""Seconds from the start of ssh to the first answer: proxies, keys, the login shell's start-up files."""

MIN_PAUSE: Final = 0.5
MAX_PAUSE: Final = 15.0
"""Seconds between two attempts to reconnect."""


class ConnectionState(msgspec.Struct, frozen=True):
    """``reason`` says why the connection is ``lost`` or ``failed``, or for how long a ``slow`` host has not answered."""

    name: Literal["connecting", "up", "slow", "lost", "failed"]
    reason: str = ""

    @property
    def is_connected(self) -> bool:
        return self.name in {"up", "slow"}


OnState = Callable[[ConnectionState], None]


class ShellSupervisor:
    """Lends its shell to one request at a time, in the order of the requests."""

    def __init__(self, ssh: SshCommand, tasks: anyio.abc.TaskGroup) -> None:
        self.ssh = ssh
        self.info = HostInfo()
        self.state = ConnectionState("connecting")
        self.listeners: list[OnState] = []
        self._tasks = tasks
        self._lock = anyio.Lock()
        self._master: HostShell | None = None
        self._shell: HostShell | None = None
        self._retry_now = anyio.Event()

    @property
    def current(self) -> HostShell | None:
        return self._shell

    @property
    def is_alive(self) -> bool:
        """Whether the connection's ssh runs."""
        return self._master is not None and self._master.is_alive

    @property
    def is_busy(self) -> bool:
        """Whether a request or an attempt to connect is in progress."""
        return self._lock.locked()

    def set_state(
        self, name: Literal["connecting", "up", "slow", "lost", "failed"], reason: str = ""
    ) -> None:
        state = ConnectionState(name, reason)
        if state != self.state:
            self.state = state
            for listener in list(self.listeners):
                listener(state)

    def retry_now(self) -> None:
        """End the pause before the next attempt to reconnect."""
        self._retry_now.set()

    @asynccontextmanager
    async def acquire(self, deadline: float) -> AsyncGenerator[HostShell]:
        """A shell that is ready for a request: the current one, a new one on this connection, or one on a new connection.

        Reconnects until ``deadline``, on the event loop's clock. Raises ``HostUnreachable``.
        """
        async with self._lock:
            yield await self._ready(deadline)

    async def wait_idle(self) -> None:
        async with self._lock:
            pass

    async def ping_idle(self) -> bool:
        """Send an empty request, if there is a connection; False if it got no answer. Never reconnects."""
        async with self._lock:
            if self.is_alive:
                with suppress(ShellEnded, WorkspaceError):  # `_watch` reports the end of the connection
                    shell = await self._ready(anyio.current_time())
                    await shell.ask(":", b"")
                    return True
        return False

    async def close(self) -> None:
        shells = {self._shell, self._master}
        self._shell = self._master = None
        for shell in shells:
            if shell is not None:
                await shell.close()

    async def _ready(self, deadline: float) -> HostShell:
        if self._shell is not None and self._shell.is_usable:
            return self._shell
        if self._master is not None and self._master.is_alive:
            try:
                return await self._replace_shell()
            except ShellEnded as ended:
                if self._master.is_alive:
                    raise self._explain(ended.message).error() from ended
        return await self._reconnect(deadline)

    async def _replace_shell(self) -> HostShell:
        """Replace a shell that still owes an answer. The master stays, idle, as it carries the connection."""
        if self._shell is not None and self._shell is not self._master:
            await self._shell.close()
        self._shell = None
        self._shell = await self._start(self.ssh.session_args(SHELL_COMMAND))
        return self._shell

    async def _reconnect(self, deadline: float) -> HostShell:
        reason = self.state.reason
        if self._master is not None:
            reason = self._explain(self._master.stderr_text).message
            self.set_state("lost", reason)
        await self.close()
        pause = MIN_PAUSE
        while True:
            self.set_state("connecting", reason)
            try:
                return await self._connect()
            except ShellEnded as ended:
                problem = self._explain(ended.message)
            except HostUnreachable as error:
                self.set_state("failed", str(error))
                raise
            except anyio.get_cancelled_exc_class():
                self.set_state("lost", reason)
                raise
            reason = problem.message
            if not problem.is_transient or anyio.current_time() + pause > deadline:
                self.set_state("failed", reason)
                raise problem.error()
            self.set_state("lost", reason)
            self._retry_now = anyio.Event()
            with anyio.move_on_after(pause):
                await self._retry_now.wait()
            pause = min(2 * pause, MAX_PAUSE)

    async def _connect(self) -> HostShell:
        shell = await self._start(self.ssh.master_args(SHELL_COMMAND))
        try:
            self.info = HostInfo.parse(shell.info, self.ssh.asked)
        except BaseException:
            await shell.close()
            raise
        self._master = self._shell = shell
        self.set_state("up")
        return shell

    async def _start(self, args: list[str]) -> HostShell:
        shell = HostShell(args, self.ssh.environ)
        self._tasks.start_soon(self._watch, shell)
        try:
            with anyio.fail_after(LOGIN_TIMEOUT):
                await shell.start(self.ssh.asked.from_home)
        except TimeoutError as error:
            await shell.close()
            raise ShellEnded(f"it took more than {LOGIN_TIMEOUT:.0f} seconds") from error
        except BaseException:
            await shell.close()
            raise
        return shell

    async def _watch(self, shell: HostShell) -> None:
        await shell.watch()
        if shell is self._master and self.state.is_connected:
            self.set_state("lost", self._explain(shell.stderr_text).message)

    def _explain(self, stderr: str) -> SshProblem:
        return explain(stderr, self.ssh.asked, keys=self.ssh.keys)
