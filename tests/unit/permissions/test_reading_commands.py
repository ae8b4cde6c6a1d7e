"""If these fail, a command that counts as one that only reads changes a repository, or shows files that were not looked at."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from newel.permissions.commands.programs import programs
from newel.permissions.commands.reading import find_reads
from tests.properties import examples
from tests.requirements import require_program

VALUES: Final = [
    "HEAD",
    "HEAD~1",
    "main",
    "a.txt",
    "pwned",
    "list",
    "show",
    "expire",
    "delete",
    "x",
    "-",
    "--",
    "1",
]
"""Names of what is there, and of what a command would create."""

COMMON: Final = [
    "--list",
    "-l",
    "--end-of-options",
    "--output=pwned",
    "-d",
    "-D",
    "-f",
    "-m",
    "--expire=now",
    "--all",
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    _git(folder, "init", "-q", "-b", "main")
    for text in ("one\n", "two\n"):
        (folder / "a.txt").write_text(text)
        _git(folder, "add", "a.txt")
        _git(folder, "commit", "-qm", text)
    _git(folder, "branch", "other")
    _git(folder, "tag", "v1")
    (folder / "b.txt").write_text("new\n")
    _git(folder, "stash", "-u")
    os.utime(
        folder / "a.txt", (1, 1)
    )  # or git writes the index anew, as it cannot tell whether the file has changed since
    _git(folder, "update-index", "--refresh")
    return folder


def _git(folder: Path, *words: str) -> int:
    return subprocess.run(
        [require_program("git"), "-c", "user.name=A", "-c", "user.email=a@example.com", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_PAGER": "cat"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=20,
        check=False,
    ).returncode


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def _commands(subcommand: str) -> st.SearchStrategy[list[str]]:
    known = programs().reading_git[subcommand]
    long = sorted(known.long) or ["--list"]
    words = st.one_of(
        st.sampled_from(COMMON),
        st.sampled_from(VALUES),
        st.sampled_from(long),
        st.tuples(st.sampled_from(long), st.sampled_from(VALUES)).map("=".join),
        # git accepts the beginning of an option that is the only one to begin so
        st.sampled_from(long).flatmap(lambda name: st.integers(3, len(name)).map(lambda most: name[:most])),
        st.text(known.short or "l", min_size=1, max_size=3).map(lambda letters: f"-{letters}"),
    )
    return st.lists(words, max_size=5)


@pytest.mark.parametrize("subcommand", sorted(programs().reading_git))
def test_what_counts_as_reading_leaves_a_repository_byte_for_byte(repository: Path, subcommand: str) -> None:
    """The option before `--list` takes it as its value: `git branch --format --list x` creates a branch."""
    before = _content(repository)

    @settings(max_examples=examples(200), deadline=None)
    @given(_commands(subcommand))
    @example(["--format", "--list", "pwned"])
    @example(["--sort", "-l", "pwned"])
    @example(["--points-at", "--contains", "pwned"])
    @example(["--format", "--", "--list", "pwned"])
    @example(["--list", "--end-of-options", "pwned"])
    def leaves(words: list[str]) -> None:
        if find_reads(["git", subcommand, *words]) is not None:
            _git(repository, subcommand, *words)
            assert _content(repository) == before

    leaves()


@pytest.mark.parametrize(
    "command",
    [
        "git branch --list x",
        "git branch -a --format=%(refname) --list x",
        "git branch --list --format %(refname) x",
        "git branch --sort refname --list x",
        "git branch --contains HEAD",
        "git tag -l --sort refname v1",
        "git log -n 3 --format %h",
        "grep -rn -A 3 one sub",
        "rg -g *.py one",
        "newel docs",
        "newel docs review keys",
    ],
)
def test_daily_commands_read(command: str) -> None:
    assert find_reads(command.split()) is not None


@pytest.mark.parametrize(
    "command",
    [
        "grep -r one",
        "grep -r -e one",
        "grep -re one",
        "grep -rn -A 3 one",
        "grep -r --include x one",
        "grep -r --include -e one",
        "grep -r -m1 one",
        "rg one",
        "rg -e one",
        "rg -ge one",
        "rg -g -e one",
        "rg -g x one",
        "rg -g -- one",
        "rg --files -g x",
        "rg --hidden --type x -C 2 one",
    ],
)
def test_a_search_without_a_folder_reads_the_working_folder(command: str) -> None:
    reads = find_reads(command.split())
    assert reads is not None
    assert reads.recurses
    assert "." in (reads.paths or ["."])
