"""If this fails, programs for Node cannot drive Newel."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.nodejs import CLIENT, NODE, packages
from tests.support import BIN, Newel


@pytest.mark.timeout(120)
def test_the_node_client_drives_a_real_newel(newel: Newel) -> None:
    """Its own tests: prompts, approvals, forks, timeouts, and the end of either side."""
    environ = {
        **newel.environ,
        "NEWEL_COMMAND": json.dumps([str(BIN / "newel"), "rpc"]),
        "NEWEL_PROJECT": str(newel.project),
    }
    command = [NODE, "--test", "--test-isolation=none"]
    done = subprocess.run(command, cwd=CLIENT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow  # a compiler
@pytest.mark.timeout(120)  # installs the compiler
def test_what_is_installed_is_built_from_the_sources() -> None:
    packages(CLIENT)
    done = subprocess.run(
        [NODE, "build.mjs", "--check"], cwd=CLIENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
