"""The user's trust in the hooks of projects: ``<home>/hooks_trust.json``, readable only by its owner.

Trust is bound to all that a file says about hooks, and to the content of each file of the project that a command names. If one of them
changes, the hooks do not run until the user has decided again: an agent that may write ``scripts/format.sh`` could else leave its sandbox by
a hook that runs it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from newel.agent.messages import now
from newel.hooks.hook import Hook
from newel.storage.files import read_regular
from newel.workspace.disk.state_file import load_state, update_state

FILE: Final = "hooks_trust.json"

State = Literal["trusted", "declined", "undecided"]

PROJECT: Final = re.compile(r"\$\{?CLAUDE_PROJECT_DIR\}?")

_WORD: Final = re.compile(r"[^\s`;|&<>()$=]+")
_ROOT: Final = "\0"
"""Stands for the project's folder, which may have a space in its name."""
_MAX_SCRIPT: Final = 4 << 20


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

    def state(self, file: Path, hooks: Sequence[Hook], project: Path) -> State:
        """The decision about the hooks of a project's file, as they and their scripts are now."""
        decisions = load_state(self._path, _HookTrustFile).decisions
        decision = decisions.get(fingerprint(file, hooks, project))
        if decision is None:
            return "undecided"
        return "trusted" if decision.trusted else "declined"

    def decide(self, file: Path, hooks: Sequence[Hook], project: Path, *, trusted: bool | None) -> None:
        """Save a decision; None removes it. Raises ``ConfigError``."""
        key, real = fingerprint(file, hooks, project), os.path.realpath(file)

        def change(state: _HookTrustFile) -> None:
            others = {name: each for name, each in state.decisions.items() if each.file != real}
            state.decisions = others
            if trusted is not None:
                state.decisions[key] = _Decision(real, trusted, now())

        update_state(self._path, _HookTrustFile, change)


def fingerprint(file: Path, hooks: Sequence[Hook], project: Path) -> str:
    """SHA-256 of the real path of a file, what it says about hooks, and the scripts of the project that they name."""
    what: list[Any] = [os.path.realpath(file)]
    for hook in hooks:
        what.append([hook.event, hook.matcher, hook.command, hook.args, hook.timeout, hook.condition])
        what += [[str(script), _digest(script)] for script in scripts_of(hook, project)]
    return hashlib.sha256(msgspec.json.encode(what)).hexdigest()


def scripts_of(hook: Hook, project: Path) -> Iterator[Path]:
    """The files of the project that a hook names, such as its script: what is there now, and what is missing below the project's
    variable.
    """
    root = os.path.realpath(project)
    words = [word for text in (hook.command, *(hook.args or ())) for word in _words(text)]
    for word in dict.fromkeys(words):
        path = os.path.realpath(os.path.join(root, word.replace(_ROOT, root)))  # noqa: PTH118 — a text
        is_file = os.path.isfile(path)  # noqa: PTH113 — a text
        if path.startswith(root + os.sep) and (is_file or word.startswith(_ROOT)):
            yield Path(path)


def _words(text: str) -> Iterator[str]:
    """What may be paths in a command: its words as a shell reads them, and within quotes."""
    text = PROJECT.sub(_ROOT, text)
    with contextlib.suppress(ValueError):
        yield from shlex.split(text)
    yield from _WORD.findall(re.sub("[\"']", "", text))


def _digest(script: Path) -> str:
    try:
        return hashlib.sha256(read_regular(script, _MAX_SCRIPT)).hexdigest()
    except OSError:
        return ""
