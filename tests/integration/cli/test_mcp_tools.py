"""If these fail, terminal users cannot use tools of MCP servers, or wait for servers that they did not name."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import Newel, bash, scenario


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


TIME = {
    "mcpServers": {
        "time": {"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]}
    }
}
ASK = scenario(
    "what time", call("time__get_current_time", timezone="UTC"), {"content": "It is {{ tool_result }}"}
)


def test_the_users_mcp_server_serves_a_prompt_on_the_command_line(
    with_model: Callable[..., Newel],
) -> None:
    newel = with_model(ASK)
    home = newel.home / ".newel"
    home.mkdir()
    (home / "mcp_config.json").write_text(json.dumps(TIME))
    done = newel("what time is it", "--renderer", "console")
    assert done.returncode == 0, done.stderr
    assert "T" in done.stdout
    assert "UTC" in done.stdout
    offered = {tool["function"]["name"] for tool in newel.requests[0]["tools"]}
    assert {"bash", "time__get_current_time", "time__convert_time"} <= offered


def test_an_mcp_server_of_a_project_starts_only_when_trusted(
    with_model: Callable[..., Newel],
) -> None:
    """Otherwise cloning a repository and sending a message runs its commands."""
    newel = with_model(ASK)
    marker = newel.project / "was-started"
    rogue = {"mcpServers": {"rogue": {"command": "touch", "args": [str(marker)]}}}
    (newel.project / ".mcp.json").write_text(json.dumps(rogue))
    done = newel("what time is it", "--renderer", "console")
    assert "rogue" in done.stderr
    assert "newel mcp" in done.stderr
    assert not marker.exists()


def test_a_start_without_servers_does_not_load_the_sdk(with_model: Callable[..., Newel]) -> None:
    newel = with_model(scenario("hi", {"content": "Hello."}))
    # Where commands run, the first scan, which needs the ledger, begins if the answer takes long.
    done = newel("--approve", "plan", "hi", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "newel.providers.openai.chat" in loaded
    assert not {"mcp", "pydantic", "fastapi", "sqlite3"} & loaded


LATE = """
import json, os, sys, time
time.sleep(float(sys.argv[1]))
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        info = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        tools = {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
        done = {"content": [{"type": "text", "text": "acted"}]}
        result = {"tools/list": tools, "tools/call": done}.get(asked["method"], info)
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def late(newel: Newel, seconds: float) -> None:
    """A server that takes this long to start."""
    home = newel.home / ".newel"
    home.mkdir()
    (home / "late.py").write_text(LATE)
    server = {"command": sys.executable, "args": [str(home / "late.py"), str(seconds)]}
    (home / "mcp_config.json").write_text(json.dumps({"mcpServers": {"late": server}}))


@pytest.mark.slow  # it is awaited as long as any server
def test_a_hanging_server_is_named_and_not_awaited_for_long(with_model: Callable[..., Newel]) -> None:
    newel = with_model(scenario("hi", {"content": "Hello."}))
    late(newel, 600)
    began = time.monotonic()
    done = newel("hi")
    assert done.returncode == 0, done.stderr
    assert 4.5 < time.monotonic() - began < 14
    assert "newel: Waiting up to 5 s for the tool server late …\n" in done.stderr
    assert "newel: Continuing without the tool server late" in done.stderr
    assert "Hello." in done.stdout


@pytest.mark.slow  # a server counts as late after the usual wait
def test_the_tools_of_a_late_server_join_the_current_run(with_model: Callable[..., Newel]) -> None:
    newel = with_model(
        scenario("work", bash("sleep 8"), call("late__act"), {"content": "It {{ tool_result }}."})
    )
    late(newel, 7)
    done = newel("work")
    assert done.returncode == 0, done.stderr
    assert "It acted." in done.stdout
    offered = [{tool["function"]["name"] for tool in each["tools"]} for each in newel.requests]
    assert "late__act" not in offered[0]
    assert "late__act" in offered[1]
