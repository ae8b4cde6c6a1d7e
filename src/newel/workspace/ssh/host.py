"""``SshHost``: one folder of a host, as a place where agents work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from newel.agent.errors import WorkspaceError
from newel.workspace.process.output import ON_HOST, OutputLimits, save_spill_on_host
from newel.workspace.ssh.host_monitor import HostMonitor
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.workspace import SshWorkspace

if TYPE_CHECKING:
    from pathlib import Path

    from newel.workspace.ssh.connection import SshConnection


class SshHost:
    """Fulfils ``newel.workspace.execution_host.ExecutionHost``."""

    def __init__(self, connection: SshConnection) -> None:
        self.connection = connection
        self.monitor = HostMonitor(connection)
        self.name = self._open(OutputLimits()).name

    @property
    def home(self) -> str:
        return self.connection.info.home

    @property
    def system(self) -> str:
        return f"{self.connection.info.system}, the host {self.connection.host}, reached over ssh"

    @property
    def shell(self) -> str:
        return "bash" if self.connection.info.bash else "sh"

    def workspace(self, folder: str, limits: OutputLimits) -> SshWorkspace:
        local, requested = self.connection.target, Target.parse(folder)
        if requested != msgspec.structs.replace(local, path=requested.path):
            raise WorkspaceError(f"{folder} is not on the connected host, which is that of {self.name}.")
        return self._open(limits).at(requested.path or self.connection.info.root)

    def worktrees(self, home: Path) -> str:
        del home  # a folder of this machine
        return f"{self.home}/.newel/worktrees"

    async def save_output(self, text: str) -> str:
        return await save_spill_on_host(self._open(OutputLimits()), f"{self.home}/{ON_HOST}", text)

    def _open(self, limits: OutputLimits) -> SshWorkspace:
        return SshWorkspace(self.connection, limits=limits)
