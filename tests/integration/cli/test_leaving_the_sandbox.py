"""If these fail, a model leaves the sandbox without a question, or a user has to turn it off for a single `git push`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.driver import Driver
from tests.requirements import require_program
from tests.sshd import Sshd
from tests.support import Newel, bash, scenario

require_program("bwrap", "bubblewrap")

WithModel = Callable[..., Newel]
Drive = Callable[..., Driver]

DONE = {"content": "Done."}
OUTSIDE = "touch ~/made; echo made > made.txt"


def unsandboxed(command: str) -> dict[str, Any]:
    arguments = {"command": command, "unsandboxed": True}
    return {"tool_calls": [{"function": {"name": "bash", "arguments": arguments}}]}


def results(newel: Newel) -> list[str]:
    return [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"]


def is_offered(newel: Newel) -> bool:
    return "unsandboxed" in str(newel.requests[0]["tools"])


def begin(newel: Newel, drive: Drive, *words: str) -> Driver:
    driver = drive(newel, *(words or ("--sandbox", "workspace")))
    driver.send(type="message", content="go")
    return driver


@pytest.mark.parametrize("mode", ["auto", "ask", "review"])
def test_a_command_runs_outside_after_a_yes_to_exactly_that(
    with_model: WithModel, drive: Drive, mode: str
) -> None:
    newel = with_model(scenario("go", unsandboxed(OUTSIDE), DONE))
    driver = begin(newel, drive, "--sandbox", "workspace", "--approve", mode)
    asked = driver.until("approval_request")
    assert asked["preview"].split("\n")[0] == "(outside of the sandbox: it can do whatever you can)"
    assert asked["preview"].endswith(OUTSIDE)
    assert "rule" not in asked
    assert not (newel.home / "made").exists()
    driver.answer(asked, "once")
    driver.until("agent_end")
    assert (newel.home / "made").exists()


def test_its_changes_in_the_project_are_undone_like_others(with_model: WithModel, drive: Drive) -> None:
    newel = with_model(scenario("go", unsandboxed(OUTSIDE), DONE))
    driver = begin(newel, drive)
    driver.answer(driver.until("approval_request"), "once")
    driver.until("agent_end")
    assert driver.finish() == 0
    assert (newel.project / "made.txt").exists()
    done = newel("undo", "--yes")
    assert done.returncode == 0, done.stderr
    assert not (newel.project / "made.txt").exists()


def test_a_no_keeps_it_from_running(with_model: WithModel, drive: Drive) -> None:
    newel = with_model(scenario("go", unsandboxed(OUTSIDE), DONE))
    driver = begin(newel, drive)
    driver.answer(driver.until("approval_request"), "no")
    driver.until("agent_end")
    assert "the user declined this call" in results(newel)[0]
    assert not (newel.home / "made").exists()


def test_always_is_for_exactly_that_command(with_model: WithModel, drive: Drive) -> None:
    steps = [unsandboxed("echo 1"), unsandboxed("echo 1"), bash("echo 1"), unsandboxed("echo 2")]
    newel = with_model(scenario("go", *steps, DONE))
    driver = begin(newel, drive)
    driver.answer(driver.until("approval_request"), "always")
    asked = driver.until("approval_request")
    assert asked["preview"].endswith("echo 2")
    driver.answer(asked, "no")
    driver.until("agent_end")
    assert len(results(newel)) == 4


@pytest.mark.parametrize("mode", ["auto", "ask"])
@pytest.mark.parametrize("rule", ["bash(touch *)", "bash"])
def test_no_rule_allows_it(with_model: WithModel, drive: Drive, mode: str, rule: str) -> None:
    newel = with_model(scenario("go", unsandboxed("touch ~/made"), DONE))
    (newel.home / ".newel").mkdir(exist_ok=True)
    (newel.home / ".newel/config.toml").write_text(f'[permissions]\nallow = ["{rule}"]\n')
    driver = begin(newel, drive, "--sandbox", "workspace", "--approve", mode)
    driver.answer(driver.until("approval_request"), "no")
    driver.until("agent_end")
    assert not (newel.home / "made").exists()


def test_a_rule_denies_it_without_a_question(with_model: WithModel, drive: Drive) -> None:
    newel = with_model(scenario("go", unsandboxed("touch ~/made"), DONE))
    (newel.home / ".newel").mkdir(exist_ok=True)
    (newel.home / ".newel/config.toml").write_text('[permissions]\ndeny = ["bash(touch *)"]\n')
    driver = begin(newel, drive)
    driver.until("agent_end")
    assert not any(event["type"] == "approval_request" for event in driver.seen)
    assert "deny bash(touch *)" in results(newel)[0]
    assert not (newel.home / "made").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--sandbox", "workspace", "--approve", "plan"),
        ("--sandbox", "workspace", "--approve", "read-only"),
        ("--sandbox", "read-only"),
        ("--sandbox", "off"),
    ],
)
def test_where_nothing_is_to_change_or_there_is_no_sandbox_it_is_no_way_out(
    with_model: WithModel, drive: Drive, words: tuple[str, ...]
) -> None:
    newel = with_model(scenario("go", unsandboxed("touch ~/made"), DONE))
    driver = begin(newel, drive, *words)
    driver.until("agent_end")
    assert not any(event["type"] == "approval_request" for event in driver.seen)
    assert not (newel.home / "made").exists()


def test_where_nobody_can_answer_it_is_not_offered(with_model: WithModel) -> None:
    newel = with_model(scenario("go", unsandboxed("touch ~/made"), DONE))
    newel("--sandbox", "workspace", "go")
    assert not is_offered(newel)
    assert not (newel.home / "made").exists()


def test_the_model_is_told_of_it_when_the_sandbox_stops_a_command(
    with_model: WithModel, drive: Drive
) -> None:
    newel = with_model(scenario("go", bash("touch /etc/newel-test"), DONE))
    begin(newel, drive).until("agent_end")
    assert is_offered(newel)
    assert "Or run the command with `unsandboxed`" in results(newel)[0]


def test_a_hosts_sandbox_is_left_the_same_way(with_model: WithModel, drive: Drive, sshd: Sshd) -> None:
    project = sshd.project("leaving")
    newel = with_model(scenario("go", bash("touch ../inside"), unsandboxed("touch ../outside"), DONE))
    newel.environ |= {"NEWEL_SANDBOX": "", "NEWEL_SSH_CONFIG": str(sshd.config)}
    driver = begin(newel, drive, "--host", f"host:{project}", "--approve", "auto")
    asked = driver.until("approval_request")
    assert asked["preview"].startswith("(outside of the sandbox")
    driver.answer(asked, "once")
    driver.until("agent_end")
    assert not (project.parent / "inside").exists()
    assert (project.parent / "outside").exists()
