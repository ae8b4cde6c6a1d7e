"""Opens the place where agents work: a folder of this machine, or one on a host."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from newel.workspace.execution_host import ExecutionHost
    from newel.workspace.ssh.connection import SshConnection
    from newel.workspace.ssh.target import Target

SSH_CONFIG: Final = "NEWEL_SSH_CONFIG"
"""The environment variable that names the file which ssh reads instead of the user's own configuration."""


@asynccontextmanager
async def open_host(folder: Path, host: str | None) -> AsyncGenerator[ExecutionHost]:
    """A folder of this machine, or else a place on a host, with its connection. Raises ``WorkspaceError``."""
    if host is None:
        from newel.workspace.local import LocalHost

        yield LocalHost(str(folder))
        return
    from newel.workspace.ssh.target import Target
    from newel.workspace.ssh.workspace import SshHost

    async with connect_to(Target.parse(host)) as connection:
        yield SshHost(connection)


def connect_to(target: Target) -> AbstractAsyncContextManager[SshConnection]:
    """A connection with the user's ssh configuration. Raises ``HostUnreachable``."""
    from newel.workspace.ssh.connection import connected

    return connected(target, config=os.environ.get(SSH_CONFIG) or None)
