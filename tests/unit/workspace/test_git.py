"""If these fail, a file of a repository that git would wait for holds up each command of an agent by minutes."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from newel.workspace.git import run_git
from tests.requirements import require_program

PLACES = ("HEAD", "config", "commondir", "info/exclude", "packed-refs", "index", "objects/info/alternates")


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    subprocess.run([require_program("git"), *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    return folder


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_no_pipe_and_no_device_in_a_repository_is_read(project: Path, place: str, kind: str) -> None:
    file = project / ".git" / place
    file.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    began = time.monotonic()
    assert run_git(str(project / "sub"), "status", "--porcelain") is None
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("place", ["HEAD", "commondir", "config", "../../config", "../../info/exclude"])
def test_nor_in_that_of_a_linked_working_tree(project: Path, tmp_path: Path, place: str) -> None:
    tree = tmp_path / "tree"
    git(project, "worktree", "add", "-q", str(tree))
    assert run_git(str(tree), "status", "--porcelain") == b""
    file = project / ".git/worktrees/tree" / place
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    began = time.monotonic()
    assert run_git(str(tree), "status", "--porcelain") is None
    assert time.monotonic() - began < 5


def test_empty_rules_may_be_a_link_to_the_null_device(project: Path) -> None:
    exclude = project / ".git/info/exclude"
    exclude.unlink(missing_ok=True)
    exclude.symlink_to(os.devnull)
    assert run_git(str(project), "status", "--porcelain") == b""


def test_a_repository_that_is_a_pipe_is_not_read(project: Path) -> None:
    shutil.rmtree(project / ".git")
    os.mkfifo(project / ".git")
    began = time.monotonic()
    assert run_git(str(project), "status", "--porcelain") is None
    assert time.monotonic() - began < 5
