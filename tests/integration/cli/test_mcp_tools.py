"""If these fail, terminal users cannot use tools of MCP servers, or wait for servers that they did not name."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import COMMAND_SECONDS
from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux


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
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        info = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        tools = {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
        done = {"content": [{"type": "text", "text": "acted"}]}
        result = {"tools/list": tools, "tools/call": done}.get(asked["method"], info)
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def late(newel: Newel, **settings: Any) -> Path:
    """A server that starts once there is the file that this returns."""
    home = newel.home / ".newel"
    home.mkdir()
    (home / "late.py").write_text(LATE)
    gate = home / "may-start"
    server = {"command": sys.executable, "args": [str(home / "late.py"), str(gate)], **settings}
    (home / "mcp_config.json").write_text(json.dumps({"mcpServers": {"late": server}}))
    return gate


def offered(newel: Newel) -> list[set[str]]:
    return [{tool["function"]["name"] for tool in each["tools"]} for each in newel.requests]


@pytest.mark.slow  # seconds of waiting
def test_a_hanging_server_is_named_and_awaited_no_longer_than_it_says(
    with_model: Callable[..., Newel],
) -> None:
    newel = with_model(scenario("hi", {"content": "Hello."}))
    late(newel, startup_timeout=2)
    done = newel("hi")
    assert done.returncode == 0, done.stderr
    assert "newel: Waiting up to 2 s for the tool server late …" in done.stderr
    assert "MCP server 'late': It did not answer within 2 seconds" in done.stderr
    assert "Hello." in done.stdout
    assert "late__act" not in offered(newel)[0]


def test_a_prompt_waits_for_a_slow_server(with_model: Callable[..., Newel]) -> None:
    """Otherwise a script does its task without the tools that it needs, and only when the machine is busy."""
    newel = with_model(scenario("work", call("late__act"), {"content": "It {{ tool_result }}."}))
    gate = late(newel)
    with newel.start("work") as process:
        assert process.stderr is not None
        assert "Waiting up to 30 s for the tool server late" in process.stderr.readline()
        assert newel.requests == []
        gate.touch()
        said, _ = process.communicate(timeout=COMMAND_SECONDS)
    assert "It acted." in said
    assert "late__act" in offered(newel)[0]


def test_the_tools_of_a_late_server_join_a_conversation(with_model: Callable[..., Newel]) -> None:
    answers = [scenario(word, {"content": f"To the {word}."}) for word in ("first", "second")]
    newel = with_model({"scenarios": [each["scenarios"][0] for each in answers]})
    gate = late(newel)
    environ = newel.environ | {"TERM": "xterm-256color"}
    with Tmux([str(BIN / "newel")], newel.project, environ, columns=120, rows=50) as terminal:
        terminal.wait_for("Enter sends")
        terminal.type("first", "Enter")
        terminal.wait_for("To the first.")
        assert "late__act" not in offered(newel)[0]
        gate.touch()
        while "late__act" not in terminal.text:
            terminal.type("/tools", "Enter")
        terminal.type("second", "Enter")
        terminal.wait_for("To the second.")
    assert "late__act" in offered(newel)[-1]
