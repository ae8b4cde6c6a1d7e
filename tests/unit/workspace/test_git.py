"""If these fail, a file of a repository that git would wait for holds up each command of an agent by minutes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from newel.workspace.git import STALL_S, run_git
from newel.workspace.git_settings import MAX_SETTINGS, NamedFiles, find_named_files
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


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", [b"\n", b"]\n", b"path ", b"path = \n", b"clean = \\", b"]clean=x"])
def test_no_settings_take_long(text: bytes) -> None:
    """They are looked through before each call of git."""
    found = find_named_files(["config"], "/home/me", lambda _: text * (MAX_SETTINGS // len(text)))
    assert found == NamedFiles([], [], [], [])


def test_a_repository_that_is_a_pipe_is_not_read(project: Path) -> None:
    shutil.rmtree(project / ".git")
    os.mkfifo(project / ".git")
    began = time.monotonic()
    assert run_git(str(project), "status", "--porcelain") is None
    assert time.monotonic() - began < 5


PATHS: Final = 6

NAMED: Final = ["include.path", "core.excludesFile", "core.attributesFile"]


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("place", ["settings", "an included file", "settings of a working tree"])
def test_no_pipe_that_settings_name_is_read(project: Path, tmp_path: Path, name: str, place: str) -> None:
    os.mkfifo(project / "pipe")
    folder = project / "sub"
    value = "../pipe" if name == "include.path" else str(project / "pipe")
    if place == "an included file":
        git(project, "config", "include.path", "more")
        git(project, "config", "--file", ".git/more", name, value)
    else:
        git(project, "config", name, value)
    if place == "settings of a working tree":
        folder = tmp_path / "tree"
        (project / ".git/config").rename(tmp_path / "kept")
        git(project, "init", "-q")
        git(project, "worktree", "add", "-q", str(folder))
        (tmp_path / "kept").replace(project / ".git/config")
    began = time.monotonic()
    assert run_git(str(folder), "check-ignore", "--no-index", "x") is None
    assert time.monotonic() - began < 1


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere nothing tells a git that waits from a slow one"
)
def test_git_that_waits_is_waited_for_once(project: Path) -> None:
    """Each command of an agent asks git several times."""
    os.mkfifo(project / "sub/.gitignore")
    began = time.monotonic()
    assert run_git(str(project), "status", "--porcelain") is None
    assert time.monotonic() - began < 10
    began = time.monotonic()
    assert run_git(str(project), "status", "--porcelain") is None
    assert run_git(str(project / "sub"), "rev-parse", "HEAD") is None
    assert time.monotonic() - began < 1
    git(project, "config", "user.name", "A")  # once the user has repaired the settings, it is asked again
    assert run_git(str(project), "rev-parse", "HEAD") is not None


@pytest.mark.slow
@pytest.mark.timeout(120)  # git works for four seconds of its own
def test_git_that_works_for_long_is_waited_for(project: Path) -> None:
    """In a repository of millions of files, the answer matters as in any other."""
    (project / ".git/info/exclude").write_bytes(b"".join(b"*a*b*d%d*\n" % n for n in range(1_000)))
    stdin = b"".join(b"%s%d\0" % (b"a" * 100 + b"b" * 100, number) for number in range(PATHS))
    began = time.monotonic()
    answer = run_git(
        str(project), "check-ignore", "--no-index", "-z", "--stdin", stdin=stdin, ok_codes=(0, 1)
    )
    assert answer == b""
    assert time.monotonic() - began > STALL_S
