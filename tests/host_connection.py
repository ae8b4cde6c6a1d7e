"""Fixtures: one connection to a host for all tests of a module, which share an event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from newel.workspace.ssh.connection import SshConnection, connected
from newel.workspace.ssh.target import Target
from tests.sshd import Sshd


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def connection(anyio_backend: str, sshd: Sshd) -> AsyncGenerator[SshConnection]:
    """A connection to this machine, as the user who runs the tests."""
    async with connected(Target("own"), config=str(sshd.config)) as host:
        yield host
