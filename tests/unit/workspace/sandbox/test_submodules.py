"""If these fail, a command in the sandbox leaves settings in a submodule, and the user's next ``git status`` runs a program by them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from newel.workspace.sandbox.repository import SandboxRepository
from newel.workspace.sandbox.sandbox_disk import LOCAL_DISK
from newel.workspace.sandbox.submodules import find_gitlinks, find_submodule_settings
from tests.requirements import require_program


def git(folder: Path, *words: str, stdin: str = "") -> None:
    program = require_program("git")
    subprocess.run([program, *words], cwd=folder, check=True, input=stdin.encode(), capture_output=True)


def add(folder: Path, *submodules: str, hash_size: int = 40) -> None:
    """Submodules among other files, one of them with an extended entry."""
    lines = [f"160000 {'1' * hash_size}\t{name}\n" for name in submodules]
    others = [f"100644 {'2' * hash_size}\tsrc/{'x' * number}.py\n" for number in range(1, 20)]
    git(folder, "update-index", "--index-info", stdin="".join([*others, *lines]))
    git(folder, "update-index", "--skip-worktree", "src/x.py")


@pytest.mark.parametrize("form", ["sha1 v2", "sha1 v4", "sha256 v2", "sha1 split"])
def test_submodules_are_found_in_every_form_of_an_index(tmp_path: Path, form: str) -> None:
    algorithm, version = form.split()
    git(tmp_path, "init", "-q", f"--object-format={algorithm}")
    names = ["lib/one", "lib/one more", "src/zzz", "zulu"]
    add(tmp_path, *names, hash_size=64 if algorithm == "sha256" else 40)
    if version == "split":
        git(tmp_path, "update-index", "--split-index")
    else:
        git(tmp_path, "update-index", "--index-version", version[1:])
    repository = SandboxRepository(top=str(tmp_path), folder=f"{tmp_path}/.git", common=f"{tmp_path}/.git")
    found = find_submodule_settings(repository, str(tmp_path), LOCAL_DISK)
    assert sorted(found) == sorted(f"{tmp_path}/{name}/.git" for name in names)


def test_a_folder_that_is_not_checked_out_is_closed_and_one_that_is_stays_open(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    add(tmp_path, "empty", "used", "gone")
    (tmp_path / "empty").mkdir()
    git(tmp_path, "init", "-q", "used")
    add(tmp_path / "used", "deeper")
    (tmp_path / "used/deeper").mkdir()
    repository = SandboxRepository(top=str(tmp_path), folder=f"{tmp_path}/.git", common=f"{tmp_path}/.git")
    found = find_submodule_settings(repository, str(tmp_path), LOCAL_DISK)
    names = ["empty", "empty/.git", "gone/.git", "used/.git", "used/deeper", "used/deeper/.git"]
    assert sorted(found) == [f"{tmp_path}/{name}" for name in names]


@pytest.mark.parametrize(
    "index",
    [b"", b"DIRC", b"\0\0\xe0\0", *(b"DIRC\0\0\0%c\0\0\0\3" % at + b"\0\0\xe0\0" * 20 for at in (2, 4))],
)
def test_a_damaged_index_has_none(index: bytes) -> None:
    assert find_gitlinks(index) == []
