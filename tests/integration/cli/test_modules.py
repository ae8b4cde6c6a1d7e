"""Where the scripts of an installation are not on PATH, ``python -m`` is the way in."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["newel", "newel.cli.main"])
def test_newel_runs_as_a_module(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("newel ")
