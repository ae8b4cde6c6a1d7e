"""Which commands only read, and which files they name: those run unasked where reading does.

Each program has the options that are known to read; any other option, and any program that is not here, may do something else.
``git`` needs a repository whose own settings start no program (``GIT_SETTINGS``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from newel.permissions.commands.programs import ReadingProgram, programs


class Reads(NamedTuple):
    """A command that only reads. ``paths`` are the files and folders that it names; ``recurses``: it reads what is in the folders, the
    working folder if it names none. ``uses_git``: it is safe only if the repository's settings are; with ``needs_repository`` also where
    there is no repository, as it reads nothing there.
    """

    paths: list[str]
    recurses: bool = False
    uses_git: bool = False
    needs_repository: bool = False

    @property
    def needs_no_file(self) -> bool:
        """Whether it reads its standard input at most, or names of the working folder."""
        return not (self.paths or self.recurses or self.uses_git)


GIT_SETTINGS: Final = (
    r"(?i)core\.(?:fsmonitor|pager|editor|sshcommand|askpass|gitproxy|alternaterefscommand|attributesfile)|diff\.external|diff\..*\.(?:command|textconv)"
    r"|filter\..*|merge\..*\.driver|pager\..*|gpg\..*|log\.showsignature|interactive\.difffilter|include(?:if)?\..*|credential\..*|browser\..*|man\..*"
    r"|alias\..*|extensions\..*|trailer\..*|uploadpack\..*|remote\..*\.(?:uploadpack|receivepack|vcs|proxy|promisor|partialclonefilter)|core\.worktree|submodule\..*\.update|grep\.fallbacktonoindex"
    r"|lfs\.(?:extension|customtransfer)\..*|lfs\.standalonetransferagent|sequence\.editor|help\..*|init\.templatedir|safe\..*|status\.submodulesummary|diff\.submodule|diff\.orderfile|blame\.ignorerevsfile|mailmap\..*"
    r"|format\.pretty|pretty\..*"
)
"""The names of settings of a repository with which a command of git that reads might start a program, or read another place."""

_VERIFYING: Final = re.compile(
    r"%[+ -]?G|%\(\*?signature|^(?:--sort=)?-?(?:v(?:ersion)?:)?\*?signature(?::|$)"
)
"""Places in a format of git, and orders, for which it starts ``gpg``, for commits that anybody may have signed."""

_WITHOUT_REPOSITORY: Final = frozenset({"diff", "grep", "shortlog"})
"""Commands of git that read files, or their input, where there is no repository."""


def find_reads(words: Sequence[str]) -> Reads | None:
    """What a command of literal words reads; None if it may do anything else."""
    name = words[0]
    if "/" in name:
        return None  # not the program of that name that is known here
    if len(words) == 2 and words[1] in {"--version", "-V"} and name in programs().versions:
        return Reads([])
    if name == "git":
        return _git(words[1:])
    if name == "find":
        return _find(words[1:])
    if name == "sed":
        return _sed(words[1:])
    if words[:2] == ["newel", "docs"]:
        return None if any(word.startswith("-") for word in words[2:]) else Reads([])
    known = programs().reading.get(name)
    return None if known is None else _simple(known, words[1:])


def _simple(known: ReadingProgram, arguments: Sequence[str]) -> Reads | None:
    split = _split(arguments, known)
    if split is None:
        return None
    options, operands, late, plain = split
    has_pattern = any(option == "--files" or _valued(option, known)[0] == "-e" for option in options)
    match known.operands:
        case "text":
            return Reads([])
        case "none" if operands:
            return None
        case "one path" if len(operands + late) > 1:
            return None  # the second one would be written
        case "pattern" if not has_pattern:
            operands = operands[1:]
        case _:
            pass
    recurses = known.recurses == "*" or any(
        option == "--recursive" or (option[:2] != "--" and set(known.recurses) & set(option))
        for option in options
    )
    # It reads the working folder if all other words are a pattern and values of options: `grep -r -e TEXT`, `rg -g GLOB TEXT`.
    names_none = not operands or (known.operands == "pattern" and plain <= (not has_pattern))
    if recurses and known.recurses and names_none and operands + late:
        operands = [*operands, "."]
    return Reads(operands + late, recurses=recurses and bool(known.recurses))


class _Arguments(NamedTuple):
    """``options`` are those which no reading of the words takes for the value of another one. The value of an option counts as an operand
    if it stands alone; ``plain`` is the number of the other operands. Options behind an operand are also ``late``: for ``xxd``, and for
    all programs on macOS, they are files.
    """

    options: list[str]
    operands: list[str]
    late: list[str]
    plain: int


def _split(arguments: Sequence[str], known: ReadingProgram) -> _Arguments | None:
    """None if an option is not known. What follows an option that takes a value must be known, too, if it looks like an option: versions
    of a program differ.
    """
    options: list[str] = []
    operands: list[str] = []
    late: list[str] = []
    plain = 0
    is_value = False
    for at, word in enumerate(arguments):
        was_value, is_value = is_value, False
        if word == "--":
            rest = arguments[at + 1 :]
            # Behind an option it may be the value of that option, as in `rg -g -- --pre=PROGRAM`: then options follow.
            may_be_value = at > 0 and arguments[at - 1].startswith("-")
            if may_be_value and any(other.startswith("-") and other != "-" for other in rest):
                return None
            return _Arguments(options, [*operands, *rest], late, plain + len(rest))
        if not word.startswith("-") or word == "-":
            operands.append(word)
            plain += not was_value
            continue
        # Letters, at most one of them with a number or a text right behind it. The dot is a letter of `rg`.
        letters = re.match(r"-[A-Za-z0-9.]*", word)
        is_known = (
            word.partition("=")[0] in known.long
            if word.startswith("--")
            else letters is not None and set(letters[0][1:]) <= set(known.short + "0123456789.")
        )
        if not is_known:
            return None
        if was_value:
            operands.append(word)
            continue
        options.append(word)
        _, is_value = _valued(word, known)
        if operands:
            late.append(word)
    return _Arguments(options, operands, late, plain)


def _valued(option: str, known: ReadingProgram) -> tuple[str, bool]:
    """The long option, or the first one among letters, that takes a value, and whether that is the next word; empty if none does."""
    if option.startswith("--"):
        return (option, True) if option in known.valued else ("", False)
    for length, letter in enumerate(option[1:], 2):
        if f"-{letter}" in known.valued:
            return f"-{letter}", length == len(option)
    return "", False


def _find(arguments: Sequence[str]) -> Reads | None:
    paths: list[str] = []
    has_tests = False
    for word in arguments:
        if word == "-H" and not has_tests:
            continue  # paths follow
        has_tests |= word.startswith(("-", "!", "("))
        if word.startswith("-") and word not in programs().find and not re.fullmatch(r"-\d+[A-Za-z]?", word):
            return None
        if not has_tests:
            paths.append(word)
    return Reads(paths)


def _sed(arguments: Sequence[str]) -> Reads | None:
    """``sed -n 10,20p FILE``: lines by their numbers, as other scripts can write and start programs."""
    if len(arguments) < 2 or arguments[0] != "-n" or any(word.startswith("-") for word in arguments[1:]):
        return None
    return Reads(list(arguments[2:])) if re.fullmatch(r"(?:\d+(?:,(?:\d+|\$))?p;?)+", arguments[1]) else None


def _git(arguments: Sequence[str]) -> Reads | None:
    if arguments and arguments[0] == "--no-pager":
        arguments = arguments[1:]
    known = programs().reading_git.get(arguments[0]) if arguments else None
    if known is None:
        return None
    subcommand, rest = arguments[0], arguments[1:]
    split = _split(rest, known)
    if split is None or any(map(_VERIFYING.search, rest)):
        return None
    options, operands, *_ = split
    if subcommand in {"branch", "tag"} and operands and not options:
        return None  # it would make one
    if (
        subcommand in {"branch", "tag"}
        and not {"--list", "-l", "--contains", "--merged", "--no-merged"}.intersection(options)
        and operands
    ):
        return None
    if subcommand in {"remote", "stash", "worktree", "reflog"} and operands[:1] not in (
        [],
        ["list"],
        ["show"],
    ):
        return None
    if subcommand in {"stash", "worktree"} and operands[:1] != ["list"] and operands[:1] != ["show"]:
        return None
    if subcommand == "remote" and operands:
        return None  # `show` asks the server
    paths = [
        operand.rpartition(":")[2] if subcommand in {"show", "cat-file"} else operand for operand in operands
    ]
    return Reads(paths, uses_git=True, needs_repository=subcommand not in _WITHOUT_REPOSITORY)
