"""If these fail, a user in a container, who cannot have the whole sandbox, is told that a part of it holds, and it does not; or works
without any although a part could be had.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from newel.client import RpcClient
from tests.driver import Driver
from tests.integration.cli.test_sandbox_default import (
    BREAK_OUT,
    HIDE,
    TOUCH,
    WithModel,
    results,
    run_under,
    unchosen,
    welcome_of,
)
from tests.ordinary_user import run_as_user
from tests.processes import pids_with
from tests.served import served, wait_until
from tests.support import BIN, Newel, bash

pytestmark = pytest.mark.slow  # two sandboxes for each; the unit tests of the partial sandbox are quick

WITHOUT = ["unshare", "-m", "sh", "-c", HIDE, "sh"]


@pytest.fixture(autouse=True)
def _machine() -> None:
    if os.geteuid() != 0:
        pytest.skip("hiding a program takes root")


def assert_confined(newel: Newel) -> None:
    assert "very secret" not in str(newel.requests)
    assert "Permission denied" in str(newel.requests)
    assert not (newel.home / "x").exists()
    assert not (newel.project.parent / "beside").exists()
    assert not Path("/etc/newel-test").exists()


@pytest.mark.parametrize("way", ["option", "variable", "setting"])
def test_a_partial_sandbox_can_be_chosen(with_model: WithModel, way: str) -> None:
    newel = unchosen(with_model, BREAK_OUT)
    if way == "setting":
        (newel.home / ".newel").mkdir()
        (newel.home / ".newel/config.toml").write_text('[sandbox]\nmode = "partial"\n')
    newel.environ["NEWEL_SANDBOX"] = "partial" if way == "variable" else ""
    done = run_under(WITHOUT, newel, *(["--sandbox", "partial"] if way == "option" else []), "go")
    assert done.returncode == 0, done.stderr
    assert_confined(newel)
    assert (newel.project / "made.txt").exists()


def test_it_confines_an_ordinary_user(with_model: WithModel) -> None:
    newel = unchosen(with_model, BREAK_OUT, bash("cat made.txt; echo $NEWEL_SANDBOX"))
    done = run_as_user(newel, "--sandbox", "partial", "go", under=WITHOUT)
    assert done.returncode == 0, done.stderr
    assert_confined(newel)
    assert results(newel)[1].startswith("stdout:\nmade\ninside\n")


def test_where_the_whole_one_holds_it_is_used(with_model: WithModel) -> None:
    newel = unchosen(with_model, bash("touch .git/x; ls /proc | grep -c '^[0-9]'"))
    (newel.project / ".git").mkdir()
    newel("--sandbox", "partial", "go")
    assert "Read-only file system" in results(newel)[0]


@pytest.mark.parametrize("words", [["go"], ["agent", "go"], ["--sandbox", "workspace", "go"]])
def test_a_run_that_nobody_attends_does_not_fall_to_it_but_names_it(
    with_model: WithModel, words: list[str]
) -> None:
    newel = unchosen(with_model, TOUCH)
    done = run_under(WITHOUT, newel, *words)
    assert done.returncode == 1
    assert "--sandbox partial" in done.stderr
    assert newel.requests == []


def test_a_user_is_asked_and_what_they_allow_is_confined(
    with_model: WithModel, drive: Callable[..., Driver]
) -> None:
    newel = unchosen(with_model, BREAK_OUT)
    driver = drive(newel, "--approve", "auto", under=WITHOUT)
    driver.send(type="message", content="go")
    driver.answer(driver.until("approval_request"), "once")
    driver.until("agent_end")
    assert_confined(newel)
    assert (newel.project / "made.txt").exists()


@pytest.mark.anyio
async def test_programs_and_the_page_are_told(with_model: WithModel) -> None:
    newel = unchosen(with_model, TOUCH)
    async with RpcClient(
        cwd=newel.project, environ=newel.environ, command=[*WITHOUT, str(BIN / "newel"), "rpc"]
    ) as client:
        state = await client.state()
        assert (state.sandbox, state.approve) == ("partial", "ask")
        assert state.sandbox_problem.startswith("Partial sandbox, so Newel asks")
    with served(newel, *WITHOUT, str(BIN / "go")) as server:
        welcome = welcome_of(server)
        assert (welcome["sandbox"], welcome["approve"]) == ("partial", "ask")
        assert welcome["sandboxProblem"].startswith("Partial sandbox, so Newel asks")


def test_doctor_says_what_holds_and_why(with_model: WithModel) -> None:
    newel = unchosen(with_model)
    (line,) = [
        each for each in run_under(WITHOUT, newel, "doctor").stdout.splitlines() if " sandbox " in each
    ]
    assert "Partial sandbox" in line
    assert "needs bubblewrap" in line
    newel.environ["NEWEL_SANDBOX"] = "partial"
    (line,) = [
        each for each in run_under(WITHOUT, newel, "doctor").stdout.splitlines() if " sandbox " in each
    ]
    assert "partial" in line
    assert "needs bubblewrap" in line


def test_a_rule_that_it_cannot_hold_keeps_it_from_starting(with_model: WithModel) -> None:
    newel = unchosen(with_model, TOUCH)
    (newel.project / "private").mkdir()
    (newel.project / "locked").write_text("x")
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel/config.toml").write_text(
        '[permissions]\ndeny = ["read(private/**)", "write(locked)"]\n'
    )
    done = run_under(WITHOUT, newel, "--sandbox", "partial", "go")
    assert done.returncode == 1
    assert f"{newel.project}/private can be read" in done.stderr
    assert f"{newel.project}/locked can be changed" in done.stderr
    assert newel.requests == []


def test_changed_settings_of_other_programs_are_named(with_model: WithModel) -> None:
    """They cannot be read-only there, and the user's next `git status` or editor runs them."""
    change = "git config core.pager evil; echo x > .git/hooks/pre-commit; echo '{}' > .vscode/tasks.json; touch .envrc"
    commit = "echo a > a.txt; git add a.txt; git -c user.name=A -c user.email=a@b commit -qm One; git log --format=%s"
    newel = unchosen(with_model, bash(commit), bash(change), bash("true"))
    subprocess.run(["git", "init", "-q"], cwd=newel.project, check=True)
    (newel.project / ".vscode").mkdir()
    (newel.project / ".vscode/tasks.json").write_text("")
    done = run_under(WITHOUT, newel, "--sandbox", "partial", "go")
    committed, changed, after = results(newel)
    assert "stdout:\nOne\n" in committed
    assert "in the project" not in committed + after
    assert "Changed in the project: .git/config, .git/hooks/pre-commit, .vscode/tasks.json." in changed
    assert "New in the project: .envrc." in changed
    assert "Changed in the project: .git/config" in done.stderr + done.stdout


def test_review_works_on_a_copy_in_it(with_model: WithModel) -> None:
    newel = unchosen(with_model, bash("echo x > a.txt; echo made > made.txt; touch ~/x"))
    (newel.project / "a.txt").write_text("here\n")
    done = run_under(WITHOUT, newel, "--sandbox", "partial", "--approve", "review", "go")
    assert done.returncode == 0, done.stderr
    assert (newel.project / "a.txt").read_text() == "here\n"
    assert newel("keep", "--all", "--yes").returncode == 0
    assert (newel.project / "made.txt").read_text() == "made\n"


@pytest.mark.parametrize(("decision", "answer"), [("no", "Not allowed by the sandbox"), ("once", "502")])
def test_the_user_is_asked_about_a_server(
    with_model: WithModel, drive: Callable[..., Driver], decision: str, answer: str
) -> None:
    fetch = "python3 -c 'import urllib.request as u; u.urlopen(\"http://nowhere.invalid/\", timeout=9)'"
    newel = unchosen(with_model, bash(f"{fetch}; {fetch}"))
    driver = drive(newel, "--sandbox", "partial", under=WITHOUT)
    driver.send(type="message", content="go")
    asked = driver.until("approval_request")
    assert asked["preview"].startswith("nowhere.invalid\n")
    driver.answer(asked, decision)
    driver.until("agent_end")
    assert results(newel)[0].count(answer) == 2


def test_the_model_and_the_user_are_told_why_a_command_failed(with_model: WithModel) -> None:
    newel = unchosen(with_model, bash("touch /etc/newel-test"), bash("touch /etc/newel-test"))
    run_under(WITHOUT, newel, "--sandbox", "partial", "go")
    first, second = results(newel)
    assert "The partial sandbox lets commands change" in first
    assert "The partial sandbox" not in second
    assert "partial sandbox" in newel.requests[0]["messages"][0]["content"]


def test_nothing_is_left_after_a_kill(with_model: WithModel) -> None:
    """Neither what runs, also in sessions of its own, nor the folder for temporary files."""
    command = "echo $TMPDIR > begun; setsid sleep 298 & sleep 298"
    newel = unchosen(with_model, bash("setsid sleep 298 >/dev/null 2>&1 &"), bash(command))
    begun = newel.project / "begun"
    with subprocess.Popen(
        [*WITHOUT, f"{BIN}/newel", "--sandbox", "partial", "go"], cwd=newel.project, env=newel.environ
    ) as process:
        wait_until(lambda: begun.exists() and begun.read_text() != "", "the command")
        process.kill()
    wait_until(lambda: not pids_with("sleep 298"), "the end of its processes")
    wait_until(lambda: not Path(begun.read_text().strip()).parent.exists(), "the end of its temporary files")
