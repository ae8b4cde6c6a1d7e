"""If these fail, an agent on a host changes the project itself, or works unseen, unlike a local one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.agents.support import after
from tests.requirements import require_program
from tests.sshd import Sshd, served
from tests.support import Newel, bash, scenario

WithAgent = Callable[..., Newel]


@pytest.fixture
def host() -> Iterator[Sshd]:
    with served() as server:
        yield server


@pytest.fixture
def project(host: Sshd) -> Path:
    """A repository of the host's user, with a commit and an untracked file."""
    folder = host.home / "shop"
    folder.mkdir()
    (folder / "mine").write_text("mine\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "first")):
        subprocess.run([require_program("git"), *words], cwd=folder, check=True)
    (folder / "new").write_text("new\n")
    return folder


def files(folder: Path) -> dict[str, str]:
    return {
        path.name: path.read_text() for path in folder.iterdir() if path.is_file() and path.name != ".git"
    }


@pytest.mark.slow  # seconds of waiting
def test_an_agent_with_a_worktree_on_a_host_does_not_touch_the_project_and_can_be_undone(
    with_agent: WithAgent, host: Sshd, project: Path
) -> None:
    newel = with_agent(after(1, True), scenario("Make a file", bash("echo made > a; rm mine; ls")))
    newel.environ["NEWEL_SSH_CONFIG"] = str(host.config)
    before = files(project)
    words = ("--worktree", "--name", "maker", "--approve", "auto", "--accept", "test -s a")
    done = newel("agent", "Make a file", *words, "--host", f"own:{project}")
    assert done.returncode == 0, done.stdout + done.stderr
    tree = host.home / ".newel" / "worktrees" / "shop-maker"
    assert f"{tree}, on branch newel/maker" in done.stdout
    assert "1 uncommitted change" in done.stdout
    assert files(project) == before
    assert files(tree) == {"a": "made\n"}
    place = f"ssh://{host.own}@own:{host.port}{tree}"
    assert newel("undo", "--host", place, "--yes").returncode == 0
    assert files(tree) == {"mine": "mine\n"}
    assert "Make a file" in newel("agents", "--host", f"own:{project}").stdout
    assert list(newel.project.iterdir()) == []


@pytest.mark.slow  # seconds of waiting
def test_under_review_on_a_host_an_agent_is_checked_in_a_copy_and_its_changes_are_pending(
    with_agent: WithAgent, host: Sshd, project: Path
) -> None:
    newel = with_agent(after(1, True), scenario("Make a file", bash("echo made > a && ls")))
    newel.environ["NEWEL_SSH_CONFIG"] = str(host.config)
    before, place = files(project), f"own:{project}"
    accept = "test -s a && test -s mine && test -s new"
    done = newel("agent", "Make a file", "--accept", accept, "--approve", "review", "--host", place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert files(project) == before
    waiting = json.loads(newel("review", "--host", place, "--json").stdout)["pending"]
    assert [file["file_path"] for file in waiting] == ["a"]
    assert newel("keep", "--all", "--host", place, "--yes").returncode == 0
    assert files(project) == before | {"a": "made\n"}


def test_a_worktree_on_a_host_without_a_repository_is_refused_before_any_request(
    with_agent: WithAgent, host: Sshd
) -> None:
    newel = with_agent()
    newel.environ["NEWEL_SSH_CONFIG"] = str(host.config)
    (host.home / "plain").mkdir()
    done = newel("agent", "Make a file", "--worktree", "--host", "own:plain")
    assert done.returncode != 0
    assert f"{host.home}/plain is not in a git repository" in done.stderr
    assert newel.requests == []
