"""If these fail, agents that work side by side spoil each other's files, or somebody's work is deleted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio
import pytest

from newel.jobs.worktree import Worktree, WorktreeError, make_worktree

pytestmark = pytest.mark.anyio


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with a commit."""
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("a = 1\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "First")
    return folder


async def test_an_agent_gets_the_commit_on_a_branch_of_its_own_outside_the_project(
    shop: Path, tmp_path: Path
) -> None:
    made = await make_worktree(shop, tmp_path / "home", "Agent-1")
    assert made.path == str(tmp_path / "home" / "worktrees" / "shop-Agent-1")
    assert (made.folder, made.branch) == (made.path, "newel/Agent-1")
    assert (Path(made.folder) / "src" / "a.py").read_text() == "a = 1\n"
    assert git(Path(made.path), "rev-parse", "--abbrev-ref", "HEAD") == "newel/Agent-1"
    assert made.branch in made.notice
    assert git(shop, "status", "--porcelain") == ""


async def test_the_agent_works_in_the_same_part_of_the_repository(shop: Path, tmp_path: Path) -> None:
    made = await make_worktree(shop / "src", tmp_path / "home", "x")
    assert (Path(made.folder) / "a.py").exists()


async def test_what_is_not_committed_is_told(shop: Path, tmp_path: Path) -> None:
    (shop / "new.py").touch()
    (shop / "src" / "a.py").write_text("a = 2\n")
    made = await make_worktree(shop, tmp_path / "home", "x")
    assert "2 changes" in made.notice
    assert (Path(made.folder) / "src" / "a.py").read_text() == "a = 1\n"


async def test_two_agents_of_one_name_at_once_get_two_places(shop: Path, tmp_path: Path) -> None:
    made: list[Worktree] = []

    async def one() -> None:
        made.append(await make_worktree(shop, tmp_path / "home", "x"))

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        group.start_soon(one)
    assert sorted(each.branch for each in made) == ["newel/x", "newel/x-2"]


async def test_a_folder_that_is_no_repository_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(WorktreeError, match=r"no git repository.*git init"):
        await make_worktree(tmp_path, tmp_path / "home", "x")


async def test_a_repository_without_a_commit_is_refused_with_the_remedy(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(WorktreeError, match="no commit yet"):
        await make_worktree(tmp_path, tmp_path / "home", "x")


async def test_the_repositorys_own_hooks_do_not_run(shop: Path, tmp_path: Path) -> None:
    hook = shop / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    await make_worktree(shop, tmp_path / "home", "x")
    assert not (tmp_path / "ran").exists()
