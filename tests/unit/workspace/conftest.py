from __future__ import annotations

from pathlib import Path

import pytest

from newel.workspace.local import LocalWorkspace
from newel.workspace.port import Workspace
from newel.workspace.process.output import OutputLimits
from newel.workspace.ssh.workspace import SshWorkspace
from tests.host_connection import anyio_backend, connection

__all__ = ["anyio_backend", "connection"]


@pytest.fixture(params=["local", "ssh"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Workspace:
    """This machine, in an empty folder, and the same folder over SSH, as the same user; long outputs go to a folder
    beside it.
    """
    folder = tmp_path / "project"
    folder.mkdir()
    limits = OutputLimits(spill_dir=str(tmp_path / "spill"))
    if request.param == "local":
        return LocalWorkspace(str(folder), limits=limits)
    return SshWorkspace(request.getfixturevalue("connection"), root=str(folder), limits=limits)
