"""Asking git, without running anything that a repository names: what is looked at may be a stranger's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Final

from newel.workspace.environment import child_env

PATIENCE: Final = 60.0
"""Seconds for one question."""

INERT: Final = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "core.hooksPath=/dev/null",
)


def git_environment() -> dict[str, str]:
    """Without what makes git look at another repository than the one that a folder is in; it locks nothing, and asks
    nobody.
    """
    environ = {name: value for name, value in child_env(os.environ).items() if not name.startswith("GIT_")}
    return environ | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


def ask_git(folder: str, *words: str, given: bytes = b"", good: Collection[int] = (0,)) -> bytes | None:
    """What git prints in a folder; None if it ends with another code than a ``good`` one, or there is no git. Blocks."""
    try:
        done = subprocess.run(
            ["git", *INERT, *words],
            cwd=folder,
            env=git_environment(),
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode in good else None


def top_of(folder: str) -> str | None:
    """The folder of the repository that a folder is in; None for none."""
    for place in (folder, *map(str, Path(folder).parents)):
        if os.path.lexists(os.path.join(place, ".git")):  # noqa: PTH118 — a root may be any bytes
            return place
    return None


def copy_repository(top: str, copy: str, *, inside: str) -> bool:
    """A repository in the folder ``copy`` with the history, the branches and the index of the one in ``top``, whose files are
    left to the caller. What is committed there stays there: it reads the objects of the other one and writes its own, and
    has no remotes. ``inside`` is the one folder that will be there ("" for all); the other files count as not checked out.
    False if git cannot do it. Blocks.
    """
    form = ask_git(top, "rev-parse", "--show-object-format")
    if form is None or ask_git(copy, "init", "--quiet", f"--object-format={form.decode().strip()}") is None:
        return False
    _share_objects(top, copy)
    refs = ask_git(top, "for-each-ref", "--format=create %(refname) %(objectname)") or b""
    index = ask_git(top, "ls-files", "--stage", "--full-name", "-z") or b""
    done = [ask_git(copy, "update-ref", "--stdin", given=refs)]
    _set_head(top, copy)
    for pair in (ask_git(top, "config", "--local", "-z", "--get-regexp", _KEPT) or b"").split(b"\0")[:-1]:
        name, _, value = os.fsdecode(pair).partition("\n")
        ask_git(copy, "config", "--local", name, value)
    done.append(ask_git(copy, "update-index", "-z", "--index-info", given=index))
    if inside:
        others = _paths_outside(index, os.fsencode(inside) + b"/")
        done.append(ask_git(copy, "update-index", "--skip-worktree", "-z", "--stdin", given=others))
    return None not in done


_KEPT: Final = r"^(user\.|core\.(autocrlf|eol|filemode|ignorecase|excludesfile|symlinks))"
"""The settings of a repository that say how its files are to be read."""


def _share_objects(top: str, copy: str) -> None:
    own = Path(copy, ".git")
    for name, place in (
        ("objects", "objects/info/alternates"),
        ("shallow", "shallow"),
        ("info/exclude", "info/exclude"),
    ):
        there = os.fsdecode((ask_git(top, "rev-parse", "--git-path", name) or b"").removesuffix(b"\n"))
        found = Path(top, there)
        if name == "objects":
            (own / place).write_bytes(os.fsencode(found.resolve()) + b"\n")
        elif there and found.is_file():
            (own / place).parent.mkdir(exist_ok=True)
            (own / place).write_bytes(found.read_bytes())


def _set_head(top: str, copy: str) -> None:
    branch = ask_git(top, "symbolic-ref", "--quiet", "HEAD")
    if branch is not None:
        ask_git(copy, "symbolic-ref", "HEAD", branch.decode().strip())
    elif commit := ask_git(top, "rev-parse", "--verify", "--quiet", "HEAD"):
        ask_git(copy, "update-ref", "--no-deref", "HEAD", commit.decode().strip())


def _paths_outside(index: bytes, prefix: bytes) -> bytes:
    paths = (entry.partition(b"\t")[2] for entry in index.split(b"\0")[:-1])
    return b"".join(path + b"\0" for path in paths if not path.startswith(prefix))
