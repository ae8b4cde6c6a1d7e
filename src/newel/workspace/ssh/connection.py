"""The connection to a host: one login whose first session is a shell that answers requests; further sessions share it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypedDict, Unpack

import anyio
import anyio.abc
import msgspec

from newel.agent.errors import ConnectionLost, WorkspaceError
from newel.concurrency import background_tasks
from newel.workspace.port import ProgramEnded
from newel.workspace.ssh.command_line import SshCommand
from newel.workspace.ssh.heartbeat import Heartbeat
from newel.workspace.ssh.port import HostAnswer
from newel.workspace.ssh.process import Client, run_program_on_host
from newel.workspace.ssh.protocol import HostInfo
from newel.workspace.ssh.shell import ShellEnded
from newel.workspace.ssh.supervisor import ConnectionState, OnState, ShellSupervisor
from newel.workspace.ssh.target import Target

RECONNECT_TIMEOUT: Final = 120.0
"""Seconds that a request waits for a lost host to come back."""

LOST_AFTER: Final = 15
"""Seconds without a sign of life after which a host counts as lost."""

SLOW_AFTER: Final = 4.0
"""Seconds without an answer after which a host is reported as slow."""

MAX_TRIES: Final = 3
"""Times that a request is sent if the connection breaks over it."""


class SshConnection:
    """A ``RemoteHostPort``; see ``connected``. Requests are answered one at a time, in order."""

    def __init__(
        self,
        target: Target,
        shells: ShellSupervisor,
        heartbeat: Heartbeat,
        services: anyio.abc.TaskGroup,
        reconnect_timeout: float,
    ) -> None:
        self.target = target
        """With the address, user and port that ssh's configuration gives."""
        self._shells = shells
        self._ssh = shells.ssh
        self._heartbeat = heartbeat
        self._services = services
        self._reconnect_timeout = reconnect_timeout
        self._tunnel_lock = anyio.Lock()

    @property
    def host(self) -> str:
        """The host's name as the user wrote it, perhaps an alias; ``target`` is the machine."""
        return self._ssh.asked.host

    @property
    def info(self) -> HostInfo:
        return self._shells.info

    @property
    def state(self) -> ConnectionState:
        return self._shells.state

    @property
    def is_busy(self) -> bool:
        """Whether a request or an attempt to connect is in progress."""
        return self._shells.is_busy

    def retry_now(self) -> None:
        """If a lost connection is to be tried again later, try it now."""
        self._shells.retry_now()

    def on_state(self, listener: OnState) -> Callable[[], None]:
        """Call the listener, which must not raise, on each change; returns a function that ends this."""
        self._shells.listeners.append(listener)
        return lambda: self._shells.listeners.remove(listener)

    async def ask(self, script: str, /, *, given: bytes = b"") -> HostAnswer:
        """See ``RemoteHostPort``. The request must change nothing: it is repeated if the connection breaks."""
        deadline = self._deadline()
        tries = 0
        while True:
            tries += 1
            try:
                return await self._request(script, given, deadline, settle=False)
            except ShellEnded as ended:
                if tries == MAX_TRIES:
                    raise ConnectionLost(
                        f"The connection to {self.host} broke {tries} times during one request. {ended.message}"
                    ) from ended

    async def change(self, script: str, /, *, given: bytes = b"") -> HostAnswer:
        """As ``ask``, but sent only once: raises ``ConnectionLost`` if the outcome is unknown."""
        try:
            return await self._request(script, given, self._deadline(), settle=True)
        except ShellEnded as ended:
            raise ConnectionLost(
                f"The connection to {self.host} was lost during a change. Its outcome is unknown and it was not retried."
                " Check the host before you repeat it."
            ) from ended

    async def ping(self) -> float:
        """The round-trip time of an empty request, in seconds."""
        await self._shells.wait_idle()  # the wait for other requests does not count
        started = anyio.current_time()
        await self.ask(":")
        return anyio.current_time() - started

    async def client(self) -> Client:
        """How to start a session on this connection for a command. Reconnects first if necessary."""
        if not self._shells.is_alive:
            async with self._shells.acquire(self._deadline()):
                pass
        return Client(
            argv=self._ssh.session_args(),
            environ=self._ssh.environ,
            host=self.host,
            busy=self._heartbeat.busy,
            is_responsive=lambda: self.state.name != "slow",
        )

    @property
    def place(self) -> str:
        """``user@host``, for messages."""
        return msgspec.structs.replace(self.target, host=self.host).login

    async def run_program(
        self, argv: Sequence[str], /, *, given: bytes, on_stdout: Callable[[bytes], Awaitable[None]]
    ) -> ProgramEnded:
        """Run a program of the user's on the host, in their home; see ``run_program_on_host``."""
        ended = await run_program_on_host(await self.client(), argv, given=given, on_stdout=on_stdout)
        return ProgramEnded(ended.exit_code, ended.stderr.encode())

    async def tunnel(self, port: int) -> str:
        """The path of a Unix socket, usable by this user only, that leads to a port on the host's loopback.

        It lasts as long as the connection, so ask each time. Whether anything listens on the port shows on use. Raises
        ``WorkspaceError``.
        """
        async with self._tunnel_lock:
            await self.client()
            path, args = self._ssh.forward_args(port)
            if not await anyio.Path(path).exists():
                done = await self._ssh.run(args)
                if done.returncode != 0:
                    reason = done.stderr.decode(errors="replace").strip()
                    raise WorkspaceError(
                        f"Cannot forward a port over the connection to {self.host}: {reason}"
                    )
        return path

    def attach(self, service: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run a service until the connection is closed; it is cancelled first, and may then ask the host once more."""
        self._services.start_soon(service)

    def _deadline(self) -> float:
        return anyio.current_time() + self._reconnect_timeout

    async def _request(self, script: str, given: bytes, deadline: float, *, settle: bool) -> HostAnswer:
        with self._heartbeat.busy():
            async with self._shells.acquire(deadline) as shell:
                answer = await shell.ask(script, given, settle=settle)
                self._heartbeat.report_answer()
                return answer


class ConnectionOptions(TypedDict, total=False):
    """``config`` is a file that ssh reads instead of the user's, ``environ`` replaces this process's environment.

    In seconds: a request waits for a lost host for ``reconnect_timeout``; a host without a sign of life is lost after
    ``lost_after``, one without an answer is slow after ``slow_after``. ``on_state`` is called on each change of state.
    """

    config: str | None
    environ: Mapping[str, str]
    reconnect_timeout: float
    lost_after: int
    slow_after: float
    on_state: OnState


@asynccontextmanager
async def connected(target: Target, **options: Unpack[ConnectionOptions]) -> AsyncGenerator[SshConnection]:
    """Connect to a host; a failure of this first attempt is final. Raises ``HostUnreachable``."""
    ssh = SshCommand(
        target,
        options.get("config"),
        options.get("environ", os.environ),
        options.get("lost_after", LOST_AFTER),
    )
    try:
        async with background_tasks() as tasks:
            shells = ShellSupervisor(ssh, tasks)
            heartbeat = Heartbeat(shells, options.get("slow_after", SLOW_AFTER))
            if "on_state" in options:
                shells.listeners.append(options["on_state"])
            try:
                resolved = await ssh.resolve()
                async with shells.acquire(anyio.current_time()):
                    pass
                async with background_tasks(heartbeat.run), background_tasks() as services:
                    timeout = options.get("reconnect_timeout", RECONNECT_TIMEOUT)
                    yield SshConnection(resolved, shells, heartbeat, services, timeout)
            finally:
                with anyio.CancelScope(shield=True):
                    await shells.close()
    finally:
        ssh.close()
