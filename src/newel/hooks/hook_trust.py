"""The user's trust in the hooks of projects: ``<home>/hooks_trust.json``, readable only by its owner.

Trust is bound to all that a file says about hooks, and to the content of each file of the project that a command names. If one of them
changes, the hooks do not run until the user has decided again: an agent that may write ``scripts/format.sh`` could else leave its sandbox
by a hook that runs it. Of a file that a command only writes (``>> log``), the real path counts: a hook changes the content itself, and a
link could lead out of the project. Of a link that does, the real path counts as well: its target may be written, or run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from newel.agent.messages import now
from newel.hooks.hook import Hook
from newel.storage.files import open_regular, real_path
from newel.text.json import exact_json
from newel.workspace.disk.state_file import load_state, update_state
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS

FILE: Final = "hooks_trust.json"

State = Literal["trusted", "declined", "undecided"]

PROJECT: Final = re.compile(r"\$CLAUDE_PROJECT_DIR|\$\{CLAUDE_PROJECT_DIR(?::?-[^{}]*)?\}")

_WORD: Final = re.compile(r"[^\s`;|&<>()$=]+")
_REST: Final = re.compile(rf"(?:[$`)~][^\s/$`)~]*/|(?<=\s)-\w(?=\.))({_WORD.pattern})")
"""A path behind what only a shell, or a program, can resolve: ``$PWD/check.sh``, ``$(git rev-parse --show-toplevel)/check.sh``,
``-r./check.js``.
"""
_OUTPUT: Final = re.compile(
    r"""(?s)'[^']*'|"(?:\\.|[^"\\])*"|\\.|<>|(?:>>?\|?[ \t]*|\|[ \t]*tee[ \t]+(?:-a[ \t]+)?)"""
    r"""(?P<target>(?:"[^"`$\\]*"|'[^']*'|[^\s;|&<>()'"`\\$])+)"""
)
"""Quoted text, or output that goes into a file whose name is known, by a redirection or ``| tee``."""
_ROOT: Final = "\0"
"""Stands for the project's folder, which may have a space in its name."""
_MAX_PATH: Final = 4_096
"""Characters. To resolve a text with many thousand slashes takes minutes."""
_MAX_SCRIPT: Final = 64 << 20
"""Bytes of a file whose content is compared. A larger one, or one that cannot be read, is another one after each change of its times."""

_DATA: Final = re.compile(
    r"(?i)\.(?:cfg|conf|css|csv|html|ini|json[5c]?|lock|log|md|mod|properties|rst|sum|svg|toml|txt|xml|ya?ml)"
)
"""The suffixes of files that an agent has to change for its work, such as ``package.json``, and that are no program for a shell or an
interpreter.
"""


class _Decision(msgspec.Struct, frozen=True):
    """``file`` and ``since`` are for readers of the file."""

    file: str
    trusted: bool
    since: str


class _HookTrustFile(msgspec.Struct):
    version: int = 1
    decisions: dict[str, _Decision] = {}


class HookTrust:
    """Reads the file each time, so that all processes of the user agree. A file that cannot be read trusts nothing."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def state(self, key: str) -> State:
        """The decision about hooks with this ``fingerprint``."""
        decision = load_state(self._path, _HookTrustFile).decisions.get(key)
        if decision is None:
            return "undecided"
        return "trusted" if decision.trusted else "declined"

    def has_trusted(self, file: Path) -> bool:
        """Whether the last decision about hooks of a file was to trust them, whatever it says now."""
        real = real_path(file)
        decisions = load_state(self._path, _HookTrustFile).decisions.values()
        return any(each.trusted and each.file == real for each in decisions)

    def decide(self, file: Path, key: str, *, trusted: bool | None) -> None:
        """Save a decision about the ``fingerprint`` that the user has seen; None removes it. Raises ``ConfigError``."""
        real = real_path(file)

        def change(state: _HookTrustFile) -> None:
            others = {name: each for name, each in state.decisions.items() if each.file != real}
            state.decisions = others
            if trusted is not None:
                state.decisions[key] = _Decision(real, trusted, now())

        update_state(self._path, _HookTrustFile, change)


def fingerprint(file: Path, hooks: Sequence[Hook], project: Path, folder: str = "") -> str:
    """SHA-256 of the real path of a file, what it says about hooks, and the scripts that they name, as they are now, if they run in
    ``folder``: a copy, or a worktree, may have other scripts than the project.
    """
    what: list[Any] = [real_path(file)]
    for hook in hooks:
        what.append([hook.event, hook.matcher, hook.command, hook.args, hook.timeout, hook.condition])
        what += [[name, _digest(script)] for name, script in _named(texts_of(hook), project, folder)]
        what += [[">", path] for path in _places(hook, project, folder)]
    return hashlib.sha256(exact_json(what)).hexdigest()


def scripts_of(hook: Hook, project: Path) -> Iterator[Path]:
    """The files of the project that a hook names, such as its script: what is there now, and what is missing below the project's
    variable.
    """
    yield from (script for _, script in _named(texts_of(hook), project, ""))


def texts_of(hook: Hook) -> list[str]:
    """The texts of a hook that may name scripts: its command without the files that only the output goes to, and its arguments."""
    return _texts(hook)[0]


def programs_of(texts: Iterable[str], project: Path, folder: str) -> Iterator[str]:
    """The real paths of what a command that runs in ``folder`` may start: the files of the project that its ``texts`` name, without those
    that hold data, and installed packages, which an agent may have to replace.
    """
    for name, file in _named(texts, project, folder):
        if not _DATA.fullmatch(file.suffix) and BUILD_DIRS.isdisjoint(Path(name).parts):
            yield str(file)


def _named(texts: Iterable[str], project: Path, folder: str) -> Iterator[tuple[str, Path]]:
    """Each script with its path below the project or the folder, whichever a shell in the folder would open."""
    root, place = _folders(project, folder)
    words = [word for text in texts for word in _words(text)]
    for word in dict.fromkeys(word for word in words if len(word) <= _MAX_PATH):
        path = real_path(os.path.join(place, word.replace(_ROOT, root)))  # noqa: PTH118 — a text
        base = _base_of(path, place, root)
        is_file = os.path.isfile(path)  # noqa: PTH113 — a text
        if base and (is_file or word.startswith(_ROOT)):
            yield os.path.relpath(path, base), Path(path)


def _places(hook: Hook, project: Path, folder: str) -> Iterator[str]:
    """Where the output of a command goes in the project, and where links lead out of it: the real paths, below the project or the folder
    if they are.
    """
    root, place = _folders(project, folder)
    texts, written = _texts(hook)
    words = [*written, *(word for text in texts for word in _words(text))]
    for word in dict.fromkeys(word for word in words if len(word) <= _MAX_PATH):
        path = os.path.normpath(os.path.join(place, word.replace(_ROOT, root)))  # noqa: PTH118 — a text
        if _base_of(path, place, root):
            real = real_path(path)
            base = _base_of(real, place, root)
            if word in written or not base:
                yield os.path.relpath(real, base) if base else real


def link_out(hook: Hook, project: Path, folder: str) -> str:
    """The file of the project that the output of a command goes to, if a link leads it out of the project; else empty."""
    root, place = _folders(project, folder)
    for word in _texts(hook)[1]:
        path = os.path.normpath(os.path.join(place, word.replace(_ROOT, root)))  # noqa: PTH118 — a text
        if _base_of(path, place, root) and not _base_of(real_path(path), place, root):
            return word.replace(_ROOT, root)
    return ""


def _folders(project: Path, folder: str) -> tuple[str, str]:
    root = real_path(project)
    return root, real_path(folder or root)


def _base_of(path: str, *bases: str) -> str:
    return next((base for base in bases if path.startswith(base + os.sep)), "")


def _texts(hook: Hook) -> tuple[list[str], list[str]]:
    """The texts of a hook that may name scripts, and the files that a shell redirects the output of its command to. A file that is in both
    may be run.
    """
    command = PROJECT.sub(_ROOT, hook.command)
    written: list[str] = []

    def cut(match: re.Match[str]) -> str:
        if (target := match["target"]) is None:
            return match[0]
        written.append(re.sub("[\"']", "", target))
        return " "

    if hook.args is None:
        with contextlib.suppress(ValueError):  # a quote without its end
            shlex.split(command)
            command = _OUTPUT.sub(cut, command)
    return [command, *(hook.args or ())], written


def _words(text: str) -> Iterator[str]:
    """What may be paths in a command: its words as a shell reads them, and within quotes."""
    text = PROJECT.sub(_ROOT, text)
    with contextlib.suppress(ValueError):
        yield from shlex.split(text)
    plain = re.sub("[\"']", "", text)
    yield from _WORD.findall(plain)
    yield from _REST.findall(plain)


def _digest(script: Path) -> str:
    """What a file is now; empty if there is none."""
    try:
        with open_regular(script) as file:
            if os.fstat(file.fileno()).st_size <= _MAX_SCRIPT:
                return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # a program may be run without being readable
        pass
    try:
        info = script.stat()
    except OSError:
        return ""
    return f"{info.st_dev} {info.st_ino} {info.st_size} {info.st_mode} {info.st_mtime_ns} {info.st_ctime_ns}"
