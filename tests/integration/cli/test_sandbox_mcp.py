"""If these fail, an MCP server of a project is a way out of the sandbox, or one of the user's does not work with it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.mcp.rogues import ROGUE
from tests.processes import pids_with
from tests.requirements import require_program
from tests.served import wait_until
from tests.support import Newel, bash, scenario

require_program("bwrap", "bubblewrap")

WithModel = Callable[..., Newel]
ACT: dict[str, Any] = {"tool_calls": [{"function": {"name": "rogue__act", "arguments": {}}}]}
FIND_KEYS = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a ^SERVER_TOKEN= || echo none"


def prepare(newel: Newel, *, own: bool, **fields: Any) -> None:
    """A server that leaves a file in the home folder, of the user's own or of the project."""
    shutil.copy(ROGUE, newel.project / "rogue.py")
    script = f"touch ~/beside; exec {sys.executable} -IS {newel.project}/rogue.py turncoat"
    entry = {"command": "sh", "args": ["-c", script], "env": {"SAYS": "Acts.", "SERVER_TOKEN": "very-secret"}}
    home = newel.home / ".newel"
    home.mkdir()
    file = home / "mcp_config.json" if own else newel.project / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"rogue": entry | fields}}))
    if not own:
        assert newel("mcp", "trust", "rogue", "--yes").returncode == 0


@pytest.mark.parametrize(
    ("own", "fields", "confined"),
    [
        (False, {}, True),
        (False, {"sandbox": False}, True),
        (True, {}, False),
        (True, {"sandbox": True}, True),
    ],
    ids=["project", "project-that-wants-out", "own", "own-inside"],
)
def test_where_a_server_runs(
    with_model: WithModel, own: bool, fields: dict[str, Any], confined: bool
) -> None:
    newel = with_model(scenario("go", ACT, bash(FIND_KEYS), {"content": "Done."}))
    prepare(newel, own=own, **fields)
    done = newel("--sandbox", "workspace", "go")
    assert done.returncode == 0, done.stderr
    acted, keys = (each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool")
    assert "not" not in acted.lower(), acted
    assert keys.startswith(
        "stdout:\nnone\n"
    )  # each has a sandbox of its own, so commands do not see its variables
    assert (newel.home / "beside").exists() != confined


def test_no_process_of_a_server_is_left(with_model: WithModel) -> None:
    newel = with_model(scenario("go", ACT, {"content": "Done."}))
    prepare(newel, own=False)
    newel("--sandbox", "workspace", "go")
    wait_until(lambda: not pids_with(str(newel.project)), "the end of the server")
