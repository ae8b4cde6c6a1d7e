"""If these fail, Newel's client violates the protocol, as MCP's own suite sees it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.forked import MODULE
from tests.nodejs import NODE, SERVERS, packages
from tests.relayed_command import relay_command

RETRIES = "sse-retry"
REFUSED_BY_THE_SDK = "auth/2025-03-26-oauth-metadata-backcompat"
"""The suite's server names an issuer with a path at the address of one without: the SDK believes no such metadata."""


def suite(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    script = packages(SERVERS) / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    with relay_command(folder, [*MODULE, "tests.integration.mcp.conformance_client"]) as command:
        return subprocess.run(
            [NODE, str(script), "client", "--command", " ".join(command), *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.mark.slow  # thirty runs of the suite, each with its own processes
@pytest.mark.timeout(120)  # it may have to wait for npm
def test_every_client_scenario_of_the_official_suite_passes(tmp_path: Path) -> None:
    """All run at once, except the measurement of a client's retry delay, which runs alone."""
    done = suite(tmp_path, "--suite=all")
    ended = {name: mark for mark, name in re.findall(r"([✓✗]) (\S+):", done.stdout)}
    assert len(ended) >= 26, done.stdout
    assert {name for name, mark in ended.items() if mark == "✗"} <= {REFUSED_BY_THE_SDK, RETRIES}, (
        done.stdout + done.stderr
    )
    alone = suite(tmp_path, "--scenario", RETRIES)
    assert alone.returncode == 0, alone.stdout + alone.stderr
