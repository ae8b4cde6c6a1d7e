"""If these fail, an agent in a hook of git changes the commit that the user is making, from a place where it must not."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.forked import proxy
from tests.support import BIN, Newel, bash, scenario

Make = Callable[..., Newel]

COMMIT = bash(
    "echo x > hooked.txt; git add -A; git -c user.name=A -c user.email=a@b commit -q --no-verify -m inner"
)


def git(newel: Newel, folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, env=newel.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_hook(newel: Newel, *words: str) -> None:
    """Make a repository whose commits start Newel."""
    (newel.project / "a.txt").write_text("one\n")
    git(newel, newel.project, "init", "-q", "-b", "main")
    git(newel, newel.project, "add", ".")
    git(newel, newel.project, "commit", "-qm", "First")
    command: Sequence[str] = proxy([str(BIN / "newel"), *words, "go"])
    hook = newel.project / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\nexec {shlex.join(command)} >&2\n")
    hook.chmod(0o755)


@pytest.mark.parametrize("words", [["--worktree"], ["--approve", "review"], ["--cwd", "../other"]])
@pytest.mark.parametrize("linked", [False, True], ids=["in the repository", "in a linked worktree"])
def test_an_agent_that_works_elsewhere_leaves_the_commit_alone(
    with_model: Make, words: list[str], linked: bool
) -> None:
    newel = with_model(scenario("go", COMMIT, {"content": "Done."}))
    with_hook(newel, *words)
    place = newel.project
    if linked:  # there, git tells hooks the repository by GIT_DIR, too
        place = newel.project.parent / "linked"
        git(newel, newel.project, "worktree", "add", "-q", "-b", "linked", str(place))
    other = place.parent / "other"
    other.mkdir()
    git(newel, other, "init", "-q")
    (place / "a.txt").write_text("two\n")
    git(newel, place, "commit", "-qam", "Second")
    assert git(newel, place, "log", "--format=%s") == "Second\nFirst\n"
    assert git(newel, place, "show", "--format=", "--name-only") == "a.txt\n"
    assert git(newel, place, "status", "--short") == ""
    if "--cwd" in words:
        assert git(newel, other, "log", "--format=%s", "--name-only") == "inner\n\nhooked.txt\n"


def test_an_agent_in_the_folder_of_the_commit_sees_what_is_committed(with_model: Make) -> None:
    """`git commit FILE` has an index of its own, which only its variable names."""
    newel = with_model(
        scenario("go", bash("git diff --cached --name-only"), {"content": "{{ tool_result }}"})
    )
    with_hook(newel)
    (newel.project / "b.txt").write_text("two\n")
    (newel.project / "a.txt").write_text("two\n")
    git(newel, newel.project, "add", "b.txt")
    git(newel, newel.project, "commit", "-qm", "Second", "a.txt")
    (*_, last) = newel.requests
    assert "a.txt" in last["messages"][-1]["content"]
    assert "b.txt" not in last["messages"][-1]["content"]


def test_a_hook_of_the_agent_that_stages_files_stages_them_in_the_copy(with_model: Make) -> None:
    write = {
        "tool_calls": [{"function": {"name": "write", "arguments": {"file_path": "b.txt", "content": "x"}}}]
    }
    newel = with_model(scenario("go", write, {"content": "Done."}))
    stage = {"hooks": {"PostToolUse": [{"hooks": [{"type": "command", "command": "git add -A"}]}]}}
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "hooks.json").write_text(json.dumps(stage))
    with_hook(newel, "--approve", "review")
    (newel.project / "a.txt").write_text("two\n")
    git(newel, newel.project, "commit", "-qam", "Second")
    assert git(newel, newel.project, "show", "--format=", "--name-only") == "a.txt\n"
    assert newel("review", "--check").returncode == 1
