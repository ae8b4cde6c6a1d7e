"""If these fail, a user who comes from Claude Code cannot add a tool server with the words that they know."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from newel.mcp import FILE
from tests.support import BIN, Newel, bash, scenario

Make = Callable[..., Newel]
URL = "https://docs.example/mcp"


def servers(newel: Newel, *, project: bool = False) -> dict[str, Any]:
    folder = newel.project if project else newel.home / ".newel"
    return json.loads((folder / FILE).read_text())["mcpServers"]


@pytest.mark.parametrize(
    "words",
    [
        ["--transport", "http", "docs", URL],
        ["-t", "http", "-s", "user", "docs", URL],
        ["docs", URL, "--transport", "http", "--scope", "user"],
    ],
    ids=" ".join,
)
def test_a_url_is_added_with_its_transport_and_scope(with_model: Make, words: list[str]) -> None:
    newel = with_model()
    done = newel("mcp", "add", *words)
    assert done.returncode == 0, done.stderr
    assert servers(newel) == {"docs": {"type": "http", "url": URL}}
    assert newel("mcp", "remove", "docs", "--scope", "user").returncode == 0


def test_a_command_is_added_for_the_project(with_model: Make) -> None:
    newel = with_model()
    words = ["-s", "project", "-t", "stdio", "time", "-e", "TZ=UTC", "--", "uvx", "mcp-server-time"]
    done = newel("mcp", "add", *words)
    assert done.returncode == 0, done.stderr
    assert servers(newel, project=True)["time"]["command"] == "uvx"


def test_an_entry_is_added_as_json(with_model: Make) -> None:
    newel = with_model()
    entry = {"command": "uvx", "args": ["mcp-server-time"]}
    assert newel("mcp", "add-json", "time", json.dumps(entry)).returncode == 0
    assert servers(newel) == {"time": entry}
    assert "is not the JSON of a server" in newel("mcp", "add-json", "x", "[]").stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["get", "docs"], "`newel mcp list` shows the servers"),
        (["add", "--scope", "local", "x", URL], "is for you in every folder"),
        (["add", "--transport", "sse", "x", URL], "MCP has deprecated SSE"),
        (["add", "--transport", "http", "x", "uvx"], "uvx is a command: use --transport stdio"),
    ],
    ids=["get", "local", "sse", "a-command-by-http"],
)
def test_what_newel_lacks_is_answered_with_what_it_has(with_model: Make, words: list[str], says: str) -> None:
    done = with_model()("mcp", *words)
    assert done.returncode == 2
    assert says in done.stderr


def test_an_agent_adds_no_server_as_json(with_model: Make) -> None:
    command = f"{BIN / 'newel'} mcp add-json x '{{}}'"
    newel = with_model(scenario("go", bash(command), {"content": "Done."}))
    newel("-p", "go", "--sandbox", "off")
    assert "is a decision of the user" in str(newel.requests[-1]["messages"][-1]["content"])
