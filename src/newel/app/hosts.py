"""Where agents work: a folder of this machine, or one on a host."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from newel.agent.errors import WorkspaceError
from newel.concurrency import background_tasks
from newel.text.format import as_clause

if TYPE_CHECKING:
    from pathlib import Path

    from newel.app.host_programs import HostPrograms
    from newel.workspace.process.runner import OutputLimits
    from newel.workspace.ssh.connection import SshConnection
    from newel.workspace.ssh.host_monitor import HostMonitor
    from newel.workspace.ssh.supervisor import ConnectionState
    from newel.workspace.ssh.target import Target
    from newel.workspace.tracked import TrackedWorkspace

SSH_CONFIG: Final = "NEWEL_SSH_CONFIG"
"""The environment variable that names the file which ssh reads instead of the user's own configuration."""

Tell = Callable[[str], Awaitable[None]]


class ExecutionHost(Protocol):
    """``name`` is the project's, by which its sessions, journals and ledger are found; ``system`` tells a model what it
    works on, and ``shell`` which one runs its commands.
    """

    @property
    def name(self) -> str: ...

    @property
    def system(self) -> str: ...

    @property
    def shell(self) -> str: ...

    @property
    def home(self) -> str:
        """The user's home there."""
        ...

    @property
    def programs(self) -> HostPrograms | None:
        """What can be asked of the host beside its folder; None for this machine."""
        ...

    @property
    def line(self) -> HostMonitor | None:
        """The way to the host; None for this machine."""
        ...

    def workspace(self, folder: str, limits: OutputLimits) -> TrackedWorkspace:
        """The workspace of a folder, by the name that a workspace gives it: the project's own, or another of the same host.
        Raises ``WorkspaceError``.
        """
        ...

    def worktrees(self, home: Path) -> str:
        """The folder, on the host that this is on, for worktrees of agents. ``home`` is Newel's folder here."""
        ...

    async def keep(self, text: str) -> str:
        """Put a text into a temporary file where the agent works, and return its path. Raises ``NewelError`` and ``OSError``."""
        ...

    def telling(self, tell: Tell) -> AbstractAsyncContextManager[object]:
        """While it is open, a person is told in words when the way there breaks, and when it is back."""
        ...


@asynccontextmanager
async def open_ground(folder: Path, host: str | None) -> AsyncGenerator[ExecutionHost]:
    """A folder of this machine, or else a place on a host, with its connection. Raises ``WorkspaceError``."""
    if host is None:
        yield LocalHost(str(folder))
        return
    from newel.workspace.ssh.target import Target

    async with connect_to(Target.parse(host)) as connection:
        yield SshHost(connection)


def connect_to(target: Target) -> AbstractAsyncContextManager[SshConnection]:
    """A connection as this user makes them. Raises ``HostUnreachable``."""
    from newel.workspace.ssh.connection import connected

    return connected(target, config=os.environ.get(SSH_CONFIG) or None)


class LocalHost:
    """A folder of this machine, and whatever other folder is asked for."""

    def __init__(self, folder: str) -> None:
        self.name = folder
        self.line = None
        self.programs = None

    @property
    def shell(self) -> str:
        import shutil

        return "bash" if shutil.which("bash") else "sh"

    @property
    def home(self) -> str:
        return os.path.expanduser("~")  # noqa: PTH111 — an unknown home stays as it is

    @property
    def system(self) -> str:
        here = os.uname()
        return f"{here.sysname} {here.release}"

    def workspace(self, folder: str, limits: OutputLimits) -> TrackedWorkspace:
        from newel.workspace.local import LocalWorkspace

        return LocalWorkspace(folder, limits=limits)

    def worktrees(self, home: Path) -> str:
        return str(home / "worktrees")

    async def keep(self, text: str) -> str:
        import anyio.to_thread

        from newel.workspace.process.output import keep

        return await anyio.to_thread.run_sync(keep, text)

    def telling(self, tell: Tell) -> AbstractAsyncContextManager[object]:
        del tell  # this machine is always there
        return nullcontext()


class SshHost:
    """One folder of a host."""

    def __init__(self, connection: SshConnection) -> None:
        from newel.app.host_programs import HostPrograms
        from newel.workspace.process.runner import OutputLimits
        from newel.workspace.ssh.host_monitor import HostMonitor

        self._connection = connection
        self.line = HostMonitor(connection)
        self.programs = HostPrograms(connection)
        self.name = self._open(OutputLimits()).name

    @property
    def home(self) -> str:
        return self._connection.facts.home

    @property
    def system(self) -> str:
        return f"{self._connection.facts.system}, the host {self._connection.host}, reached over ssh"

    @property
    def shell(self) -> str:
        return "bash" if self._connection.facts.bash else "sh"

    def workspace(self, folder: str, limits: OutputLimits) -> TrackedWorkspace:
        from newel.workspace.ssh.target import Target

        here, there = self._connection.target, Target.parse(folder)
        if there != msgspec.structs.replace(here, path=there.path):
            raise WorkspaceError(f"{folder} is not what this is connected to: that is {self.name}.")
        return self._open(limits).at(there.path or self._connection.facts.root)

    def worktrees(self, home: Path) -> str:
        del home  # nothing there knows of it
        return f"{self._connection.facts.home}/.newel/worktrees"

    async def keep(self, text: str) -> str:
        from newel.workspace.process.output import ON_HOST, keep_there
        from newel.workspace.process.runner import OutputLimits

        return await keep_there(self._open(OutputLimits()), f"{self._connection.facts.home}/{ON_HOST}", text)

    def telling(self, tell: Tell) -> AbstractAsyncContextManager[object]:
        return background_tasks(partial(self._watch, tell))

    async def _watch(self, tell: Tell) -> None:
        import anyio

        from newel.workspace.ssh.supervisor import ConnectionState

        host = self._connection.host
        send, states = anyio.create_memory_object_stream[ConnectionState](math.inf)
        end = self._connection.on_state(send.send_nowait)
        away = ""
        try:
            async for state in states:
                if words := _told(state, away, host):
                    await tell(words)
                away = _AWAY.get(state.name, away)
        finally:
            end()
            send.close()
            states.close()

    def _open(self, limits: OutputLimits) -> TrackedWorkspace:
        from newel.workspace.ssh.workspace import SshWorkspace

        return SshWorkspace(self._connection, limits=limits)


_AWAY: Final = {"slow": "slow", "lost": "lost", "up": ""}
"""How a host is away after it was told of its connection; other states change nothing in that."""


def _told(state: ConnectionState, away: str, host: str) -> str:
    """What a person is told of a change, if anything, who knows how the host is ``away``."""
    match state.name, away:
        case "slow", "":
            return f"There is {state.reason} from {host}. Newel waits for it."
        case "lost", "" | "slow":
            return f"The connection to {host} is lost: {as_clause(state.reason)}. Newel tries to get it back."
        case "up", "slow":
            return f"{host} answers again."
        case "up", "lost":
            return f"The connection to {host} is back."
        case "failed", _:
            return f"There is no connection to {host}: {state.reason}"
        case _:
            return ""
