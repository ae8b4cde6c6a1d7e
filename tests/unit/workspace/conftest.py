from __future__ import annotations

from pathlib import Path

import pytest

from newel.workspace.local import LocalWorkspace
from newel.workspace.process import Limits


@pytest.fixture
def workspace(tmp_path: Path) -> LocalWorkspace:
    """This machine, seen from an empty folder; long outputs go to a folder beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    return LocalWorkspace(str(folder), limits=Limits(spill_dir=str(tmp_path / "spill")))
