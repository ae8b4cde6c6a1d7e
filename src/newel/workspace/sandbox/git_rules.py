"""Which calls of git a sandbox passes on to run where ``.git`` can be written.

git itself runs there, and no other program (``git_confined_main``). So a call is refused if git would leave something that makes the
*user's* git run a program later, or would write a place that the command names, or only asks for what does not work there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from newel.storage.files import read_regular

CHANGING: Final = frozenset(
    {
        *(
            "add",
            "apply",
            "branch",
            "checkout",
            "cherry-pick",
            "commit",
            "merge",
            "mv",
            "rebase",
            "reset",
        ),
        *("restore", "revert", "rm", "stash", "switch", "tag"),
    }
)
"""Subcommands that are passed on. None may make a commit of anything but the index."""

ADDING: Final = frozenset({"add", "apply"})
"""Those that may put a repository inside the project into the index."""

SETTINGS: Final = (
    r"(user|author|committer|advice|color)\.[a-z.-]+|commit\.(gpgsign|cleanup|verbose|status)|tag\.gpgsign|init\.defaultbranch"
    r"|core\.(quotepath|autocrlf|safecrlf|eol|editor|pager|abbrev|filemode)|merge\.(conflictstyle|ff|renames)|rerere\.enabled"
    r"|rebase\.(autostash|autosquash)|sequence\.editor"
)
"""What ``-c`` may set, in any case. No other: some are formats of files that git reads again as instructions."""

STRATEGIES: Final = frozenset({"ort", "recursive", "resolve", "octopus", "ours", "subtree"})
"""Ways to merge. git keeps the name of another one, and continues with a program of that name."""

_REBASE: Final = (
    r"--(continue|abort|skip|quit|onto|root|keep-base|(no-)?autosquash|(no-)?autostash|force-rebase|(no-)?ff|quiet|verbose|(no-)?stat"
    r"|(no-)?rebase-merges(=[a-z-]+)?|(no-)?reapply-cherry-picks|empty=[a-z]+|committer-date-is-author-date|reset-author-date|ignore-date"
    r"|signoff|(no-)?fork-point|(no-)?update-refs|apply|merge|interactive|strategy-option=[a-z-]+|(no-)?gpg-sign|onto=.*)|-[iqvnfm]|--"
)

_COMMIT: Final = (
    r"--(all|amend|(no-)?edit|quiet|(no-)?verbose|(no-)?signoff|allow-empty|allow-empty-message|reset-author|(no-)?verify"
    r"|(no-)?gpg-sign|gpg-sign=.*|(no-)?status|no-post-rewrite|untracked-files(=[a-z]+)?|dry-run|short|branch|porcelain|long|null)"
)
"""Options of ``git commit``, written in full. None takes files of the working tree, but for ``--all``."""
_COMMIT_VALUE: Final = (
    r"--(message|file|author|date|reuse-message|reedit-message|fixup|squash|template|cleanup|trailer)"
)
_COMMIT_CLUSTER: Final = r"-(?P<plain>[aeqvsnz]*)(?P<valued>[mFCct].*|[Su].*)?"
_COMMIT_SHOWS: Final = r"--(dry-run|short|branch|porcelain|long|null)"

_NAMES_A_PLACE: Final = r"--(git-dir|work-tree|namespace|exec-path|config-env|super-prefix|attr-source)\b.*"
_HARMLESS: Final = (
    r"-p|-P|--(no-)?paginate|--no-pager|--no-optional-locks|--literal-pathspecs|--no-replace-objects"
)


class GitCall(msgspec.Struct, frozen=True):
    """A call that may be passed on: ``folder`` is relative to the caller's own, ``settings`` are ``name=value``. ``adds_changes``: after
    a call that adds all changes to the index.
    """

    folder: Sequence[str]
    settings: Sequence[str]
    words: Sequence[str]
    adds_changes: bool = False


class GitRefused(Exception):
    """Why a call is not passed on, for who made it."""


def judge_call(argv: Sequence[str]) -> GitCall:
    """The call of a command line without ``git``. Raises ``GitRefused``."""
    folder: list[str] = []
    settings: list[str] = []
    rest = list(argv)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-C" and rest:
            folder.append(rest.pop(0))
        elif option == "-c" and rest:
            setting = rest.pop(0)
            if re.fullmatch(SETTINGS, setting.partition("=")[0], re.IGNORECASE) is None:
                raise GitRefused(
                    f"`-c {setting[:100]}` is not allowed for a call that changes the repository. Leave it out."
                )
            settings.append(setting)
        elif re.fullmatch(_NAMES_A_PLACE, option):
            raise GitRefused(
                f"`{option[:100]}` is not allowed for a call that changes the repository. Use `-C FOLDER`."
            )
        elif re.fullmatch(_HARMLESS, option) is None:
            raise GitRefused(f"`{option[:100]}` is not known here. Leave it out.")
    if not rest or rest[0] not in CHANGING:
        raise GitRefused("`.git` is read-only for this command. Leave it to the user.")
    _judge_words(rest[0], rest[1:])
    if rest[0] != "commit":
        return GitCall(folder, settings, rest)
    words, adds_changes = _commit_of_index(rest[1:])
    return GitCall(folder, settings, ["commit", *words], adds_changes)


def _commit_of_index(words: Sequence[str]) -> tuple[list[str], bool]:
    """The words of a commit without its ``--all``, and whether it has that. git would take a repository in the place of a file into
    the commit itself, so what comes from the working tree is added first, and looked at. Raises ``GitRefused``.
    """
    kept: list[str] = []
    adds_changes = only_shows = False
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in {"-", "--"} or not word.startswith("-"):
            if word == "--" and not rest:
                break
            raise GitRefused(
                "a commit here names no files: `git add` the files, then `git commit` without them."
            )
        cluster = re.fullmatch(_COMMIT_CLUSTER, word, re.DOTALL)
        if cluster is not None:
            plain, valued = cluster["plain"], cluster["valued"] or ""
            adds_changes |= "a" in plain
            only_shows |= "z" in plain
            plain = plain.replace("a", "")
            kept += [f"-{plain}{valued}"] * bool(plain or valued)
            takes_next = len(valued) == 1 and valued not in "Su"
        elif re.fullmatch(rf"{_COMMIT}|{_COMMIT_VALUE}(=.*)?", word, re.DOTALL):
            adds_changes |= word == "--all"
            only_shows |= re.fullmatch(_COMMIT_SHOWS, word) is not None
            kept += [word] * (word != "--all")
            takes_next = re.fullmatch(_COMMIT_VALUE, word) is not None
        else:
            raise GitRefused(
                f"`commit {word[:100]}` is not known here. `git add` the files, then `git commit` with options written in full."
            )
        kept += [rest.pop(0)] if takes_next and rest else []
    if adds_changes and only_shows:
        raise GitRefused("`git status` shows what a commit of all changes would have.")
    return kept, adds_changes


def _judge_words(subcommand: str, words: Sequence[str]) -> None:
    options = list(words[: words.index("--")] if "--" in words else words)
    if subcommand == "rebase":
        for option in options:
            if option.startswith("-") and re.fullmatch(_REBASE, option) is None:
                raise GitRefused(
                    f"`rebase {option[:100]}` is not allowed: a rebase here only picks commits. Leave it to the user."
                )
    for place, option in enumerate(options):
        name, _, value = option.partition("=")
        is_strategy = (len(name) > 5 and "--strategy".startswith(name)) or (
            subcommand in {"merge", "rebase"} and option == "-s"
        )
        if is_strategy:
            value = value or (options[place + 1] if place + 1 < len(options) else "")
        elif subcommand == "merge" and re.fullmatch(r"-[a-ln-zA-EG-WYZ]*s.+", option):
            is_strategy, value = True, option.partition("s")[2]
        if is_strategy and value not in STRATEGIES:
            raise GitRefused(f"{value[:100]!r} is not one of git's own ways to merge.")
        if (
            len(name) > 3
            and "--edit-description".startswith(name)
            and subcommand == "branch"
            and len(name) > 6
        ):
            raise GitRefused("descriptions of branches are settings. Leave them to the user.")


# -- what git leaves for later ---------------------------------------------------------------------------


_PROGRAM_LINE: Final = rb"(?m)^\s*(exec|x)\s"


def find_instructions(folder: str) -> list[str]:
    """Files in a folder of git that would make the user's git run a program, of the kinds that git itself may have written."""
    found: list[str] = []
    todo = f"{folder}/rebase-merge/git-rebase-todo"
    if re.search(_PROGRAM_LINE, _read(todo)):
        found.append(todo)
    for name in ("rebase-merge/strategy", "rebase-apply/strategy"):
        strategy = _read(f"{folder}/{name}").strip()
        if strategy and strategy.decode(errors="replace") not in STRATEGIES:
            found.append(f"{folder}/{name}")
    match = re.search(rb"^\s*strategy\s*=\s*(.*)$", _read(f"{folder}/sequencer/opts"), re.MULTILINE)
    if match and match[1].strip().decode(errors="replace") not in STRATEGIES:
        found.append(f"{folder}/sequencer/opts")
    return found


def _read(path: str) -> bytes:
    try:
        return read_regular(Path(path), most=None)
    except OSError:
        return b""
