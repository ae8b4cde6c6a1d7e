"""If these fail, a hook runs for calls that it is not about, or not for those that it is about."""

from __future__ import annotations

import pytest

from newel.agent.ports import ToolResult
from newel.hooks.condition import may_hold
from newel.hooks.hook import matches
from newel.hooks.tool_names import hook_input, hook_names, hook_response, our_arguments

pytestmark = pytest.mark.anyio

PLACE = {"root": "/home/ada/shop", "home": "/home/ada"}


@pytest.mark.parametrize(
    ("condition", "command", "runs"),
    [
        ("Bash(git *)", "FOO=bar git push", True),
        ("Bash(git *)", "npm test && git push", True),
        ("Bash(rm *)", "echo $(rm -rf /)", True),
        ("Bash(git push *)", "git pull", False),
        ("Bash(rm *)", "npm test", False),
        ("Bash(npm run test:*)", "npm run test:unit", True),
        ("bash(rm *)", "rm x", True),
        ("Bash", "anything", True),
        ("Bash(*)", "anything", True),
        ("Edit(*.ts)", "rm x.ts", False),
        ("not a rule (", "anything", True),
    ],
)
async def test_a_condition_about_commands_errs_towards_running(
    condition: str, command: str, runs: bool
) -> None:
    """The table is that of Claude Code's documentation, and more."""
    assert await may_hold(condition, "bash", {"command": command}, **PLACE) is runs


@pytest.mark.parametrize(
    ("condition", "path", "runs"),
    [
        ("Edit(*.ts)", "/home/ada/shop/src/deep/a.ts", True),
        ("Edit(*.ts)", "/home/ada/shop/src/a.tsx", False),
        ("Edit(src/**)", "/home/ada/shop/src/deep/a.py", True),
        ("Edit(src/**)", "/home/ada/shop/lib/src/a.py", False),
        ("Edit(**/src/**)", "/home/ada/shop/lib/src/a.py", True),
        ("Edit(~/shop/a.py)", "/home/ada/shop/a.py", True),
        ("Write(*.ts)", "/home/ada/shop/a.ts", False),
        ("MultiEdit(*.ts)", "/home/ada/shop/a.ts", True),
    ],
)
async def test_a_condition_about_files_is_a_pattern_of_their_paths(
    condition: str, path: str, runs: bool
) -> None:
    assert await may_hold(condition, "edit", {"file_path": path}, **PLACE) is runs


@pytest.mark.parametrize(
    ("matcher", "runs"),
    [
        ("mcp__memory__.*", True),
        ("memory__.*", True),
        ("mcp__memory__create", True),
        ("memory__create", True),
        ("mcp__memory", False),
        ("mcp__.*__create.*", True),
        ("^(?!mcp__)", False),
        ("Bash|mcp__memory__create", True),
        ("[", False),
    ],
)
def test_tools_of_servers_have_both_names(matcher: str, runs: bool) -> None:
    assert matches(matcher, hook_names("memory__create")) is runs


def test_arguments_are_told_as_claude_code_has_them_and_come_back() -> None:
    given = hook_input("bash", {"command": "make", "timeout": 1.5}, **PLACE)
    assert given == {"command": "make", "timeout": 1_500}
    assert our_arguments("bash", given) == {"command": "make", "timeout": 1.5}
    for path in ("src/a.py", "./src/../src/a.py", "~/shop/src/a.py", "/home/ada/shop/src/a.py"):
        assert hook_input("read", {"file_path": path}, **PLACE)["file_path"] == "/home/ada/shop/src/a.py"
    assert hook_input("memory__create", {"path": "a"}, **PLACE) == {"path": "a"}


def test_results_are_told_as_claude_code_has_them() -> None:
    result = ToolResult("ok")
    assert hook_response("bash", {}, result)["stdout"] == "ok"
    assert hook_response("edit", {"file_path": "/a"}, result) == {"filePath": "/a", "success": True}
    assert hook_response("memory__create", {}, result) == {"content": [{"type": "text", "text": "ok"}]}
