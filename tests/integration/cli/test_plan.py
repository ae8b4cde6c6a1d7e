"""If these fail, an agent that was asked for a plan has changed something, or the plan cannot be carried out."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

MARK = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


def call(tool: str, **arguments: object) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": tool, "arguments": arguments}}]}


STEPS = pytest.mark.parametrize(
    ("step", "allowed"),
    [
        (bash("ls -la | head -3"), True),
        (bash("git log --oneline"), True),
        (bash("touch a"), False),
        (bash("ls > a"), False),
        (bash("git commit --allow-empty -m x"), False),
        (call("write", file_path="a", content="x"), False),
        (call("grep", pattern="x", path="."), True),
        (call("ls", path="."), True),
    ],
)


def with_rules(with_model: Make, step: dict[str, Any]) -> Newel:
    newel = with_model(scenario("work", step, {"content": "A plan."}))
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text('[permissions]\nallow = ["bash(touch *)", "write"]\n')
    subprocess.run(["git", "init", "-q"], cwd=newel.project, check=True)
    return newel


@STEPS
def test_a_plan_may_look_but_not_touch(with_model: Make, step: dict[str, Any], allowed: bool) -> None:
    newel = with_rules(with_model, step)
    newel("--approve", "plan", "work")
    assert ("this is a plan" not in str(newel.requests[-1]["messages"][-1]["content"])) is allowed
    assert [path.name for path in newel.project.iterdir()] == [".git"]
    assert "# Plan first" in str(newel.requests[0]["messages"][0]["content"])


@STEPS
def test_read_only_runs_the_same_commands_as_a_plan(
    with_model: Make, step: dict[str, Any], allowed: bool
) -> None:
    """An agent that may only read cannot answer a question about a project without `git log`."""
    newel = with_rules(with_model, step)
    newel("--approve", "read-only", "work")
    result = str(newel.requests[-1]["messages"][-1]["content"])
    assert ("Not run: this run is read-only" not in result) is allowed
    assert [path.name for path in newel.project.iterdir()] == [".git"]
    assert "# Plan first" not in str(newel.requests[0]["messages"][0]["content"])


def test_a_plan_changes_nothing_and_is_carried_out_by_one_command(with_model: Make) -> None:
    steps = [
        scenario("think", bash("touch a"), {"content": "First a, then b."}),
        scenario("Implement the plan.", bash("touch a"), {"content": "It is there."}),
    ]
    newel = with_model({"scenarios": [each["scenarios"][0] for each in steps]})
    environ = newel.environ | {"TERM": "xterm-256color"}
    with Tmux([str(BIN / "newel"), "--approve", "plan"], newel.project, environ) as terminal:
        terminal.wait_for(MARK)
        terminal.type("think", "Enter")
        terminal.wait_for("First a, then b.")
        terminal.wait_for("/implement starts on the plan")
        assert not (newel.project / "a").exists()
        terminal.type("/implement", "Enter")
        terminal.wait_for(f"{MARK} Implement the plan.")
        terminal.type("", "Enter")
        terminal.wait_for("Run this?")
        terminal.wait_for("Enter answers")
        terminal.type("y", "Enter")
        terminal.wait_for("It is there.")
        assert (newel.project / "a").exists()
        terminal.type("/approve", "Enter")
        terminal.wait_for(f"{MARK} ask        each change and command is shown first  (in use)")
