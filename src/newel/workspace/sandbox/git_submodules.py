"""Refuses calls of git that would bring a submodule into the index.

The user's next ``git status`` looks into its folder, and obeys the settings there, which a command can write before or after. The sandbox
protects the submodules that were there when it started (``submodules``), so a new one is left to the user.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Final

from newel.workspace.git import run_git
from newel.workspace.sandbox.git_rules import GitRefused

_TREES: Final = frozenset({"checkout", "merge", "rebase", "reset", "restore", "stash", "switch"})
"""Subcommands that put the files of a commit into the index."""

_ENDINGS: Final = (["--abort"], ["--continue"], ["--quit"], ["--skip"])
"""Words of a merge, or a rebase, that begins none."""

_COMMITS: Final = frozenset({"cherry-pick", "rebase", "revert"})
"""Those that apply the changes of commits, one after the other."""

_PICKS: Final = (
    r"-{1,2}|--(continue|abort|skip|quit)|-[exrnsmSX].*|--(mainline|strategy|strategy-option|empty|cleanup|gpg-sign)(=.*)?"
    r"|--(no-)?(edit|commit|signoff|ff|allow-empty|allow-empty-message|keep-redundant-commits|rerere-autoupdate|gpg-sign|reference)"
)
"""Options of ``cherry-pick`` and ``revert``. They would take those of ``rev-list``, too."""

_TAKES_FILES: Final = frozenset({"checkout", "reset", "restore"})
"""Behind ``--`` these take files, and others commits."""

_MANY: Final = 500
"""Words of a call that may each be a branch or a range."""


def refuse_new_submodules(top: str, words: Sequence[str]) -> None:
    """Raises ``GitRefused`` if a call may bring a submodule that the last commit does not have."""
    subcommand = words[0]
    if subcommand not in _TREES | _COMMITS:
        return
    if subcommand in {"cherry-pick", "revert"}:
        _judge_picks(subcommand, words[1:])
    found = _resolve(top, subcommand, list(_names(subcommand, words[1:])))
    new: set[bytes] = set()
    if subcommand in _TREES:
        for commit in found:
            new |= _in_tree(top, commit.removeprefix("^"))
    if subcommand in _COMMITS and found:
        new |= _in_commits(top, subcommand, found)
    if new:
        raise GitRefused(
            f"it brings a submodule, {os.fsdecode(min(new))[:200]!r}, whose settings git would obey. Leave it to the user."
        )


def _judge_picks(subcommand: str, words: Sequence[str]) -> None:
    """Raises ``GitRefused`` for an option that names commits by itself, such as ``--branches`` or ``--stdin``, or is not known."""
    for word in words:
        if word.startswith("-") and re.fullmatch(_PICKS, word, re.DOTALL) is None:
            raise GitRefused(
                f"`{subcommand} {word[:100]}` is not known here. Name the commits, and write options in full."
            )


def _names(subcommand: str, words: Sequence[str]) -> Iterator[str]:
    """What may be the name of a commit, in any place and as the value of any option."""
    if subcommand in {"merge", "rebase"} and list(words) not in _ENDINGS:
        yield "@{upstream}"
    if subcommand == "stash" and {"apply", "branch", "pop"} & set(words):
        yield "stash@{0}"
    for word in words[: words.index("--")] if "--" in words and subcommand in _TAKES_FILES else words:
        if word == "-":
            yield "@{-1}"
        elif word.startswith("--"):
            yield word.partition("=")[2]
        elif word.startswith("-"):
            yield from (
                word[at + 1 :] for at, letter in enumerate(word) if letter == "s"
            )  # `restore -Ssmain`
        else:
            yield word
            if subcommand == "stash" and word.isdecimal():
                yield f"stash@{{{word}}}"


def _resolve(top: str, subcommand: str, names: Sequence[str]) -> list[str]:
    """The objects that names mean; of a range, what is not in it begins with ``^``. Raises ``GitRefused``."""
    if any("\n" in name and (name.startswith(":/") or "^{/" in name) for name in names):
        raise GitRefused("a commit is not found here by several lines of its message.")
    plain = [name for name in dict.fromkeys(names) if name and not set("\0\n") & set(name)]
    ranges = [
        name for name in plain if re.search(r"^\^|\.\.|\^(@|!|-\d*)$", name) and not name.startswith("-")
    ]
    if len(plain) > _MANY:
        raise GitRefused("it has too many words. Put `--` before the files.")
    found = _objects(top, plain)
    for name in ranges:
        found += (run_git(top, "rev-parse", "--revs-only", name) or b"").split()
    if plain and subcommand in {"checkout", "switch"}:  # the name of a branch that only a remote has
        remote = [f"refs/remotes/**/{name}" for name in plain]
        found += (run_git(top, "for-each-ref", "--format=%(objectname)", *remote) or b"").split()
    return list(dict.fromkeys(map(os.fsdecode, found)))


def _objects(top: str, names: Sequence[str]) -> list[bytes]:
    """The commits and trees that names mean."""
    asked = "".join(f"{name}\n" for name in names).encode(errors="surrogateescape")
    listed = run_git(top, "cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked) or b""
    lines = listed.splitlines()
    if len(lines) < len(names) > 1:  # git ends at a branch without an upstream, and the like
        return [each for name in names for each in _objects(top, [name])]
    return [line.split()[0] for line in lines if line.endswith((b" commit", b" tag", b" tree"))]


def _in_tree(top: str, commit: str) -> set[bytes]:
    changes = run_git(top, "diff-tree", "-r", "-z", "--raw", "--no-renames", "HEAD", commit)
    if changes is not None:
        return _submodules(changes)
    entries = (run_git(top, "ls-tree", "-r", "-z", commit) or b"").split(b"\0")  # there is no commit yet
    return {entry.partition(b"\t")[2] for entry in entries if entry.startswith(b"160000 ")}


def _in_commits(top: str, subcommand: str, found: Sequence[str]) -> set[bytes]:
    """The submodules that come or go in commits that are applied. Raises ``GitRefused``."""
    words = ["--no-walk=unsorted", *found] if not any(each.startswith("^") for each in found) else [*found]
    if subcommand == "rebase":
        base = run_git(top, "merge-base", "--octopus", "HEAD", *(each.removeprefix("^") for each in found))
        words = ["HEAD", *found, *(f"^{each.decode()}" for each in (base or b"").split())]
    commits = run_git(top, "rev-list", *words)
    changes = commits and run_git(
        top,
        "diff-tree",
        "--stdin",
        "--no-commit-id",
        "-r",
        "-m",
        "--root",
        "-z",
        "--raw",
        "--no-renames",
        stdin=commits,
    )
    if changes is None:
        raise GitRefused("the commits cannot be read. Leave it to the user.")
    return _submodules(changes, either=True)


def _submodules(changes: bytes, *, either: bool = False) -> set[bytes]:
    """The paths that become submodules by raw changes, or in ``either`` direction, also those that cease to be ones."""
    found: set[bytes] = set()
    fields = iter(changes.split(b"\0"))
    for facts in fields:
        if facts.startswith(b":"):
            path = next(fields, b"")
            before, after = facts[1:7] == b"160000", facts[8:14] == b"160000"
            found |= {path} if before != after and (after or either) else set()
    return found
