"""If these fail, parallel agents overwrite each other's files, or a worktree's work is deleted."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from newel.workspace.git_worktree import Worktree, WorktreeError, make_worktree, remove_if_unchanged
from newel.workspace.local import LocalWorkspace
from newel.workspace.ssh.workspace import SshWorkspace
from newel.workspace.tracked import TrackedWorkspace
from tests.host_connection import anyio_backend, connection
from tests.requirements import require_program

__all__ = ["anyio_backend", "connection"]

pytestmark = pytest.mark.anyio

Open = Callable[[Path], TrackedWorkspace]


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    return subprocess.run(
        [require_program("git"), *identity, *words], cwd=folder, check=True, capture_output=True, text=True
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


@pytest.fixture(params=["here", "on a host"])
def of(request: pytest.FixtureRequest) -> Open:
    """Opens a project."""
    if request.param == "here":
        return lambda folder: LocalWorkspace(str(folder))
    host = request.getfixturevalue("connection")
    return lambda folder: SshWorkspace(host, root=str(folder))


async def test_an_agent_gets_the_commit_on_its_own_branch_outside_the_project(
    of: Open, shop: Path, tmp_path: Path
) -> None:
    made = await make_worktree(of(shop), f"{tmp_path}/home/worktrees", "Agent-1")
    assert made.path == str(tmp_path / "home" / "worktrees" / "shop-Agent-1")
    assert (made.folder, made.branch) == (of(Path(made.path)).name, "newel/Agent-1")
    assert (Path(made.path) / "src" / "a.py").read_text() == "a = 1\n"
    assert git(Path(made.path), "rev-parse", "--abbrev-ref", "HEAD") == "newel/Agent-1"
    assert made.branch in made.notice
    assert git(shop, "status", "--porcelain") == ""


async def test_the_agent_works_in_the_same_subfolder_of_the_repository(
    of: Open, shop: Path, tmp_path: Path
) -> None:
    made = await make_worktree(of(shop / "src"), f"{tmp_path}/home/worktrees", "x")
    assert made.folder == of(Path(made.path) / "src").name
    assert (Path(made.path) / "src" / "a.py").exists()


async def test_uncommitted_changes_are_reported(of: Open, shop: Path, tmp_path: Path) -> None:
    (shop / "new.py").touch()
    (shop / "src" / "a.py").write_text("a = 2\n")
    made = await make_worktree(of(shop), f"{tmp_path}/home/worktrees", "x")
    assert "2 uncommitted changes" in made.notice
    assert (Path(made.path) / "src" / "a.py").read_text() == "a = 1\n"


async def test_two_agents_of_the_same_name_at_once_get_separate_worktrees(
    of: Open, shop: Path, tmp_path: Path
) -> None:
    made: list[Worktree] = []

    async def one() -> None:
        made.append(await make_worktree(of(shop), f"{tmp_path}/home/worktrees", "x"))

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        group.start_soon(one)
    assert sorted(each.branch for each in made) == ["newel/x", "newel/x-2"]


async def test_a_folder_without_a_repository_is_refused_with_a_remedy(of: Open, tmp_path: Path) -> None:
    require_program("git")
    with pytest.raises(WorktreeError, match=r"not in a git repository.*git init"):
        await make_worktree(of(tmp_path), f"{tmp_path}/home/worktrees", "x")


async def test_a_repository_without_a_commit_is_refused_with_a_remedy(of: Open, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(WorktreeError, match="no commits yet"):
        await make_worktree(of(tmp_path), f"{tmp_path}/home/worktrees", "x")


async def test_the_repositorys_own_hooks_do_not_run(of: Open, shop: Path, tmp_path: Path) -> None:
    hook = shop / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    await make_worktree(of(shop), f"{tmp_path}/home/worktrees", "x")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("action", ["clean", "smudge", "process"])
async def test_the_repositorys_own_filters_do_not_run(
    of: Open, shop: Path, tmp_path: Path, action: str
) -> None:
    """Who unpacks a project gets its `.git/config`, too."""
    (shop / ".gitattributes").write_text("* filter=a=b\n")
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "Second")
    git(shop, "config", f"filter.a=b.{action}", f"touch {tmp_path}/ran; exit 1")
    next(path for path in (shop / "src").iterdir() if path.is_file()).touch()
    with pytest.raises(WorktreeError, match=rf"filter\.a=b\.{action}"):
        await make_worktree(of(shop), f"{tmp_path}/home/worktrees", "x")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name", ["lfs.customtransfer.x.path", "lfs.extension.x.smudge", "lfs.standalonetransferagent"]
)
async def test_git_lfs_of_the_user_starts_no_program_of_the_repository(
    of: Open, shop: Path, tmp_path: Path, name: str
) -> None:
    """It is a filter of the user's own, which runs, and obeys the repository's settings."""
    git(shop, "config", name, "./evil")
    with pytest.raises(WorktreeError, match=re.escape(name)):
        await make_worktree(of(shop), f"{tmp_path}/home/worktrees", "x")


async def test_no_server_is_asked_for_what_a_repository_lacks(of: Open, shop: Path, tmp_path: Path) -> None:
    """A repository that claims to be partial names the program that is asked."""
    settings = {
        "remote.o.url": f"ext::sh -c 'touch {tmp_path}/ran'",
        "remote.o.promisor": "true",
        "protocol.ext.allow": "always",
        "extensions.partialClone": "o",
        "core.repositoryFormatVersion": "1",
    }
    for name, value in settings.items():
        git(shop, "config", name, value)
    file = next(path for path in (shop / "src").iterdir() if path.is_file())
    blob = git(shop, "rev-parse", f"HEAD:src/{file.name}").strip()
    (shop / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(WorktreeError):
        await make_worktree(of(shop), f"{tmp_path}/home/worktrees", "x")
    assert not (tmp_path / "ran").exists()


async def test_other_users_cannot_read_the_worktrees(of: Open, shop: Path, tmp_path: Path) -> None:
    await make_worktree(of(shop), f"{tmp_path}/home/worktrees", "x")
    assert (tmp_path / "home" / "worktrees").stat().st_mode & 0o777 == 0o700


async def test_a_missing_git_is_reported(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    bare = LocalWorkspace(str(shop), environ={"PATH": str(tmp_path / "bin")})
    with pytest.raises(WorktreeError, match=r"requires git.*not found"):
        await make_worktree(bare, f"{tmp_path}/home/worktrees", "x")


async def test_a_projects_name_is_never_run_as_a_command(of: Open, shop: Path, tmp_path: Path) -> None:
    odd = tmp_path / "-a; touch x '$(touch y)"
    shutil.move(shop, odd)
    made = await make_worktree(of(odd), f"{tmp_path}/home dir/worktrees", "Agent 1; touch z")
    assert made.path == f"{tmp_path}/home dir/worktrees/{odd.name}-Agent-1-touch-z"
    assert (
        git(tmp_path / "home dir" / "worktrees" / f"{odd.name}-Agent-1-touch-z", "log", "--format=%s")
        == "First"
    )
    assert {path.name for path in odd.iterdir()} == {".git", "src"}


async def test_an_unchanged_worktree_is_removed_and_one_with_a_change_is_kept(
    of: Open, shop: Path, tmp_path: Path
) -> None:
    project = of(shop)
    made = await make_worktree(project, f"{tmp_path}/home/worktrees", "x")
    folder = tmp_path / "home" / "worktrees" / "shop-x"
    new = folder / "new.txt"
    new.write_text("work")
    assert not await remove_if_unchanged(project, made)
    new.unlink()
    assert await remove_if_unchanged(project, made)
    assert not folder.exists()


async def test_a_submodule_of_a_worktree_runs_nothing_when_the_worktree_is_looked_at(
    of: Open, shop: Path, tmp_path: Path
) -> None:
    """A command in the sandbox cannot change the worktree's `.git`, but that of a submodule."""
    library = tmp_path / "library"
    shutil.copytree(shop, library)
    git(shop, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    git(shop, "commit", "-qm", "Second")
    project = of(shop)
    made = await make_worktree(project, f"{tmp_path}/home/worktrees", "x")
    inside = tmp_path / "home" / "worktrees" / "shop-x" / "lib"
    git(library, "clone", "-q", ".", str(inside))
    set_filter(inside, tmp_path)
    assert not await remove_if_unchanged(project, made)
    assert not (tmp_path / "ran").exists()
    assert inside.exists()


async def test_a_filter_that_was_set_meanwhile_does_not_run_when_the_worktree_is_looked_at(
    of: Open, shop: Path, tmp_path: Path
) -> None:
    """Without a whole sandbox, a command can change the settings of the repository."""
    project = of(shop)
    made = await make_worktree(project, f"{tmp_path}/home/worktrees", "x")
    set_filter(shop, tmp_path)
    (Path(made.path) / "src" / "a.py").touch()
    assert not await remove_if_unchanged(project, made)
    assert not (tmp_path / "ran").exists()


def set_filter(repository: Path, place: Path) -> None:
    """Have git run a program for each file of a repository that it compares."""
    git(repository, "config", "filter.x.clean", f"touch {place}/ran; cat")
    (repository / ".git" / "info" / "attributes").write_text("* filter=x\n")
    for file in repository.rglob("*.py"):
        file.touch()
