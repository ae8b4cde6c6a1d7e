from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from newel.workspace.local import LocalWorkspace
from newel.workspace.port import Workspace
from newel.workspace.process import Limits
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.workspace import open_host
from tests.sshd import Sshd


@pytest.fixture(params=["local", "ssh"])
async def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Workspace]:
    """This machine, seen from an empty folder, and the same folder over SSH, as the same user; long outputs go to a
    folder beside it.
    """
    folder = tmp_path / "project"
    folder.mkdir()
    limits = Limits(spill_dir=str(tmp_path / "spill"))
    if request.param == "local":
        yield LocalWorkspace(str(folder), limits=limits)
        return
    sshd: Sshd = request.getfixturevalue("sshd")
    async with open_host(Target("own", path=str(folder)), config=str(sshd.config), limits=limits) as host:
        yield host
