"""A workspace on a host over its own connection, for tests and benchmarks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Unpack

from newel.workspace.ssh.connection import ConnectionOptions, connected
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.workspace import SshWorkspace


@asynccontextmanager
async def open_host(target: Target, **options: Unpack[ConnectionOptions]) -> AsyncGenerator[SshWorkspace]:
    """The connection ends with the block; see ``connected``."""
    async with connected(target, **options) as connection:
        yield SshWorkspace(connection)
