"""If these fail, a run has tools that its user left out, or a mistyped name leaves it without one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from tests.forked import proxy
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

HELLO = scenario("hello", {"content": "Hello."})


def offered(newel: Newel) -> set[str]:
    return {tool["function"]["name"] for tool in newel.requests[-1].get("tools", [])}


def with_time_server(newel: Newel) -> Newel:
    home = newel.home / ".newel"
    home.mkdir()
    command, *words = proxy([sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"])
    server = {"command": command, "args": words}
    (home / "mcp_config.json").write_text(json.dumps({"mcpServers": {"time": server}}))
    return newel


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ("read,write", {"read", "write"}),
        (" read , edit ,", {"read", "edit"}),
        ("none", set[str]()),
        ("", set[str]()),
        (
            "*",
            {
                "read",
                "write",
                "edit",
                "bash",
                "grep",
                "find",
                "ls",
                "todo",
                "task",
                "bash_output",
                "web_fetch",
            },
        ),
        ("[er]*", {"read", "edit"}),
    ],
)
def test_only_the_named_tools_are_offered(with_model: Make, names: str, wanted: set[str]) -> None:
    newel = with_model(HELLO)
    assert newel("--tools", names, "hello").returncode == 0
    assert offered(newel) == wanted
    prompt = newel.requests[-1]["messages"][0]["content"]
    assert ("`bash`" in prompt) == ("bash" in wanted)


def test_a_tool_that_was_left_out_does_not_run(with_model: Make) -> None:
    """A model may call it anyway, out of habit or because a file told it to."""
    newel = with_model(scenario("go", bash("touch made"), {"content": "Done."}))
    newel("--tools", "read", "go")
    assert not (newel.project / "made").exists()
    assert "There is no tool named 'bash'" in newel.requests[-1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ("time__get_current_time", {"time__get_current_time"}),
        ("bash,time__*", {"bash", "time__get_current_time", "time__convert_time"}),
        ("read", {"read"}),
    ],
)
def test_tools_of_servers_are_named_likewise(with_model: Make, names: str, wanted: set[str]) -> None:
    newel = with_time_server(with_model(HELLO))
    assert newel("--tools", names, "hello").returncode == 0
    assert offered(newel) == wanted


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        ("read,bahs", "Did you mean bash?"),
        ("Read", "Did you mean read?"),
        (
            "str_replace",
            "The tools are: read, bash, edit, write, grep, find, ls, todo, task, bash_output, web_fetch, skill.",
        ),
        ("time__convert", "Did you mean time__convert_time?"),
        ("nope__*", "time__convert_time"),
    ],
)
def test_an_unknown_name_is_a_usage_error(with_model: Make, names: str, hint: str) -> None:
    newel = with_time_server(with_model(HELLO)) if "__" in names else with_model(HELLO)
    done = newel("--tools", names, "hello")
    assert done.returncode == 2
    assert hint in done.stderr
    assert newel.requests == []


def test_programs_see_which_tools_are_offered(with_model: Make) -> None:
    newel = with_model(HELLO)
    first = newel("--output-format", "stream-json", "--tools", "read", "hello").stdout.splitlines()[0]
    assert json.loads(first)["tools"] == ["read"]
    first = newel("--json", "--tools", "read", "hello").stdout.splitlines()[0]
    assert json.loads(first)["tools"] == ["read"]
