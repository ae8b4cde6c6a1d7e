"""A host that is connected to when it is first needed, for a program that goes on where it cannot be."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import anyio

from newel.agent.errors import WorkspaceError
from newel.app.host_programs import HostPrograms
from newel.concurrency import background_tasks
from newel.review.tracking.recording_workspace import AgentSession, RecorderRegistry, RecordingWorkspace
from newel.workspace.port import Completed, OnOutput, ProgramEnded, Workspace
from newel.workspace.ssh.connection import SshConnection, connected
from newel.workspace.ssh.supervisor import ConnectionState
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.workspace import SshWorkspace

if TYPE_CHECKING:
    from newel.review.project import ProjectReview

PATIENCE: Final = 20.0
"""Seconds that a person waits for a host that went away."""


class RemoteHost:
    """Fulfils ``terminal.jexida.ports.Host`` and ``providers.ollama_run.Programs``; made by ``remote_host``.

    Whoever asks first makes the connection; a failure is theirs, and the next one tries again.
    """

    def __init__(self, target: Target, config: str | None) -> None:
        self.target = target
        self.latency: float | None = None
        self.opens: Callable[[SshConnection], Workspace] = SshWorkspace
        """What commands run in, made of the connection when the first one runs."""
        self._config = config
        self._connection: SshConnection | None = None
        self._workspace: Workspace | None = None
        self._state = ConnectionState("connecting")
        self._failure: WorkspaceError | None = None
        self._wanted = anyio.Event()
        self._settled = anyio.Event()
        self._watchers: list[Callable[[], None]] = []

    @property
    def name(self) -> str:
        return self.target.login

    place = name

    @property
    def directory(self) -> str:
        return self._connection.facts.root if self._connection else self.target.path or ""

    @property
    def state(self) -> str:
        words: dict[str, str] = {"failed": "not connected", "slow": "does not answer"}
        return words.get(self._state.name, self._state.name)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Be told when the state changes."""
        self._watchers.append(watcher)

    async def connection(self) -> SshConnection:
        """The connection, made if there is none. Raises ``WorkspaceError``."""
        while self._connection is None:
            settled = self._settled
            self._wanted.set()
            await settled.wait()
            if self._connection is None and self._failure is not None:
                raise self._failure
        return self._connection

    async def connect(self) -> None:
        """Raises ``WorkspaceError``."""
        await self._measure(await self.connection())

    async def project_name(self) -> str:
        return self.target.url if self.target.path is None else SshWorkspace(await self.connection()).name

    async def run(self, command: str, /, *, on_output: OnOutput | None = None) -> Completed:
        connection = await self.connection()
        completed = await self._opened(connection).run(command, on_output=on_output)
        if connection.state.name == "up":
            with suppress(WorkspaceError):  # the command has ended, whatever becomes of the connection
                await self._measure(connection)
        return completed

    async def project(self) -> ProjectReview | None:
        workspace = self._opened(await self.connection())
        return (await workspace.recorder()).project if isinstance(workspace, RecordingWorkspace) else None

    async def run_program(
        self, argv: Sequence[str], /, *, given: bytes, on_stdout: Callable[[bytes], Awaitable[None]]
    ) -> ProgramEnded:
        there = HostPrograms(await self.connection())
        return await there.run_program(argv, given=given, on_stdout=on_stdout)

    async def tunnel(self, port: int) -> str:
        """A socket here that leads to a port there. Raises ``WorkspaceError``."""
        return await (await self.connection()).tunnel(port)

    async def shell(self) -> Sequence[str]:
        program, *words = (await (await self.connection()).client()).argv
        # ssh takes the first of what it is told: this comes before the option that asks for no terminal.
        command = [program, "-tt", *words]
        if self.target.path is not None:
            inner = f'cd -- {shlex.quote(self.directory)} && exec "${{SHELL:-sh}}" -l'
            command.append(f"exec sh -c {shlex.quote(inner)}")
        return command

    async def keep(self) -> None:
        """Make the connection when it is wanted, and hold it until cancelled."""
        while True:
            await self._wanted.wait()
            try:
                async with connected(
                    self.target, config=self._config, patience=PATIENCE, on_state=self._take
                ) as self._connection:
                    self._settle(None)
                    await anyio.sleep_forever()
            except WorkspaceError as error:
                self._take(ConnectionState("failed"))
                self._settle(error)
            finally:
                self._connection = self._workspace = None

    def _opened(self, connection: SshConnection) -> Workspace:
        if self._workspace is None:
            self._workspace = self.opens(connection)
        return self._workspace

    async def _measure(self, connection: SshConnection) -> None:
        self.latency = 1000 * await connection.ping()

    def _settle(self, failure: WorkspaceError | None) -> None:
        """Those who wait go on; who comes now wants it anew."""
        self._failure, self._wanted = failure, anyio.Event()
        self._settled.set()
        self._settled = anyio.Event()

    def _take(self, state: ConnectionState) -> None:
        self._state = state
        for watcher in self._watchers:
            watcher()


@asynccontextmanager
async def remote_host(target: Target, *, config: str | None = None) -> AsyncGenerator[RemoteHost]:
    """A host, and its connection let go of at the end. ``config`` is a file that ssh reads instead of the user's."""
    host = RemoteHost(target, config)
    async with background_tasks(host.keep):
        yield host


def recorded(
    attended: AgentSession, recorders: RecorderRegistry, connection: SshConnection
) -> RecordingWorkspace:
    """The folder of a connection, where the changes of an agent's commands are recorded as they are with ``newel --host``."""
    workspace = RecordingWorkspace(SshWorkspace(connection), recorders)
    workspace.attend(attended)
    return workspace
