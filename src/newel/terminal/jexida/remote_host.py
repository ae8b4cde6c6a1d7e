"""The host that jexida's commands run on."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from newel.agent.errors import WorkspaceError
from newel.review.tracking.recording_workspace import AgentSession, RecorderRegistry, RecordingWorkspace
from newel.workspace.port import CommandResult, OnOutput, Workspace
from newel.workspace.ssh.connection import SshConnection
from newel.workspace.ssh.lazy_connection import LazyConnection
from newel.workspace.ssh.workspace import SshWorkspace

if TYPE_CHECKING:
    from newel.review.project import ProjectReview

STATES = {"failed": "not connected", "slow": "does not answer"}
"""Displayed states of a connection; the others are shown by their own names."""


class RemoteHost:
    """Fulfils ``terminal.jexida.ports.CommandHost``. The first request makes the connection."""

    def __init__(self, lazy: LazyConnection) -> None:
        self.lazy = lazy
        self.latency: float | None = None
        self.open_workspace: Callable[[SshConnection], Workspace] = SshWorkspace
        """Opens the workspace that commands run in."""
        self._opened: tuple[SshConnection, Workspace] | None = None
        self.watch = lazy.watch

    @property
    def name(self) -> str:
        return self.lazy.target.login

    @property
    def directory(self) -> str:
        connection = self.lazy.current
        return connection.info.root if connection else self.lazy.target.path or ""

    @property
    def state(self) -> str:
        return STATES.get(self.lazy.state.name, self.lazy.state.name)

    async def connect(self) -> None:
        """Raises ``WorkspaceError``."""
        await self._measure(await self.lazy.get())

    async def project_name(self) -> str:
        target = self.lazy.target
        return target.url if target.path is None else SshWorkspace(await self.lazy.get()).name

    async def run(self, command: str, /, *, on_output: OnOutput | None = None) -> CommandResult:
        connection = await self.lazy.get()
        completed = await self._workspace(connection).run(command, on_output=on_output)
        if connection.state.name == "up":
            with suppress(WorkspaceError):  # the command has ended, whatever happens to the connection
                await self._measure(connection)
        return completed

    async def project(self) -> ProjectReview | None:
        workspace = self._workspace(await self.lazy.get())
        return (await workspace.recorder()).project if isinstance(workspace, RecordingWorkspace) else None

    async def shell(self) -> Sequence[str]:
        program, *arguments = (await (await self.lazy.get()).client()).argv
        # ssh obeys the first of conflicting options: this comes before the one that disables the terminal.
        command = [program, "-tt", *arguments]
        if self.lazy.target.path is not None:
            inner = f'cd -- {shlex.quote(self.directory)} && exec "${{SHELL:-sh}}" -l'
            command.append(f"exec sh -c {shlex.quote(inner)}")
        return command

    def _workspace(self, connection: SshConnection) -> Workspace:
        if self._opened is None or self._opened[0] is not connection:
            self._opened = connection, self.open_workspace(connection)
        return self._opened[1]

    async def _measure(self, connection: SshConnection) -> None:
        self.latency = 1000 * await connection.ping()


def recorded(
    session: AgentSession, recorders: RecorderRegistry, connection: SshConnection
) -> RecordingWorkspace:
    """The folder of a connection, with the changes of an agent's commands recorded as with ``newel --host``."""
    workspace = RecordingWorkspace(SshWorkspace(connection), recorders)
    workspace.attend(session)
    return workspace
