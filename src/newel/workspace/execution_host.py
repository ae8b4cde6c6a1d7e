"""``ExecutionHost``: the machine on which agents work, this one or a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from newel.workspace.process.output import OutputLimits
    from newel.workspace.sandbox.policy import SandboxPolicy
    from newel.workspace.ssh.connection import SshConnection
    from newel.workspace.ssh.host_monitor import HostMonitor
    from newel.workspace.tracked import TrackedWorkspace


class ExecutionHost(Protocol):
    """``name`` is the project's, by which its sessions, journals and ledger are found; ``system`` and ``shell`` describe the
    host to a model. ``home`` is the user's home there. ``connection`` and ``monitor`` are None for this machine.
    """

    @property
    def name(self) -> str: ...

    @property
    def system(self) -> str: ...

    @property
    def shell(self) -> str: ...

    @property
    def home(self) -> str: ...

    @property
    def connection(self) -> SshConnection | None: ...

    @property
    def monitor(self) -> HostMonitor | None: ...

    def workspace(self, folder: str, limits: OutputLimits) -> TrackedWorkspace:
        """The workspace of a folder, by the name that a workspace gives it: the project's own, or another of the same host.
        Raises ``WorkspaceError``.
        """
        ...

    def own_workspace(self) -> TrackedWorkspace:
        """The project's, for commands of Newel's own, which no sandbox confines."""
        ...

    async def policy(self, folder: str, /) -> SandboxPolicy | None:
        """What commands may do in a folder, by its real path there; None without a sandbox. Raises ``NewelError``."""
        ...

    def worktrees(self, home: Path) -> str:
        """The folder on the host for worktrees of agents. ``home`` is Newel's folder on this machine."""
        ...

    async def save_output(self, text: str) -> str:
        """Write a text to a temporary file where the agent works, and return its path. Raises ``NewelError`` and ``OSError``."""
        ...
