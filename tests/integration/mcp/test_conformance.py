"""Newel as a client keeps to the protocol, as MCP's own suite sees it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nodejs import NODE, SERVERS, packages

pytestmark = pytest.mark.timeout(120)
"""More time than a test takes: the first one may have to wait for npm."""

SCENARIOS = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "auth/cross-app-access-complete-flow",
]

REFUSED_BY_THE_SDK = ["auth/2025-03-26-oauth-metadata-backcompat"]
"""The suite's server names an issuer with a path at the address of one without: the SDK believes no such metadata."""


def suite(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    script = packages(SERVERS) / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    return subprocess.run(
        [NODE, str(script), *words], cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_of_the_official_suite_passes(scenario: str, tmp_path: Path) -> None:
    client = f"{sys.executable} -m newel.commands.mcp_conformance"
    done = suite("client", "--command", client, "--scenario", scenario, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]


def test_no_scenario_for_clients_is_left_out(tmp_path: Path) -> None:
    listed = suite("list", cwd=tmp_path).stdout.partition("Client scenarios")[2]
    assert sorted(re.findall(r"^  - (\S+)", listed, re.MULTILINE)) == sorted(SCENARIOS + REFUSED_BY_THE_SDK)
