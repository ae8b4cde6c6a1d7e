"""If these fail, the first command waits for a scan that the model's answer had time for, or a kill during it costs an edit."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forked import killed
from tests.hook_scripts import group, hook, users
from tests.requirements import require_program
from tests.served import wait_until
from tests.support import Newel, bash, scenario

WithModel = Callable[..., Newel]

LONG_MS = 60_000


def indexes(newel: Newel) -> list[Path]:
    """The saved index of the project, with which the first scan ends."""
    return list((newel.home / ".newel" / "review").glob("*/files.index"))


@pytest.fixture
def newel(with_model: WithModel) -> Newel:
    later = scenario("go", bash("echo theirs > theirs.txt"), {"content": "Done."})["scenarios"]
    slow = scenario("think", {"delay_ms": LONG_MS, "response": {"content": "Well."}})["scenarios"]
    newel = with_model({"scenarios": [*later, *slow]})
    (newel.project / "a.txt").write_text("a\n")
    return newel


def test_a_project_is_scanned_while_the_model_thinks_and_a_kill_costs_nothing(newel: Newel) -> None:
    with killed(newel.start("--approve", "auto", "think")):
        wait_until(lambda: indexes(newel), "a scan")
    (newel.project / "a.txt").write_text("mine\n")
    done = newel("--approve", "auto", "go")
    assert done.returncode == 0, done.stderr
    assert "killed" not in done.stdout + done.stderr
    assert (newel.project / "theirs.txt").exists()
    assert newel("undo", "--yes").returncode == 0
    assert [path.name for path in newel.project.iterdir()] == ["a.txt"]
    assert (newel.project / "a.txt").read_text() == "mine\n"


def test_a_user_with_hooks_waits_no_longer(newel: Newel) -> None:
    users(newel, Stop=[group(hook("true"))])
    with killed(newel.start("--approve", "auto", "think")):
        wait_until(lambda: indexes(newel), "a scan")


@pytest.mark.parametrize("preset", ["plan", "read-only"])
def test_where_no_command_changes_anything_nothing_is_copied(newel: Newel, preset: str) -> None:
    with killed(newel.start("--approve", preset, "think")):
        wait_until(lambda: newel.requests, "a request")
        time.sleep(0.6)
    assert not indexes(newel)


@pytest.mark.parametrize("place", ["include.path", "core.excludesFile", ".gitignore"])
@pytest.mark.parametrize("approval", ["auto", "ask"])
def test_a_pipe_that_git_would_read_holds_no_run_up(newel: Newel, place: str, approval: str) -> None:
    """Git would wait for it at each call, and a run makes many."""
    git = require_program("git")
    subprocess.run([git, "init", "-q"], cwd=newel.project, check=True)
    if place == ".gitignore":
        (newel.project / "sub").mkdir()
        os.mkfifo(newel.project / "sub/.gitignore")
        (newel.project / "sub/a.txt").write_text("a\n")
    else:
        os.mkfifo(newel.project / "pipe")
        value = "../pipe" if place == "include.path" else str(newel.project / "pipe")
        subprocess.run([git, "config", place, value], cwd=newel.project, check=True)
    began = time.monotonic()
    newel("--approve", approval, "go")
    assert time.monotonic() - began < 15
    if approval == "auto":
        assert (newel.project / "theirs.txt").exists()
        assert "Git did not answer" in newel("review").stdout
