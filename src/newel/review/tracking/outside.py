"""Notices what commands change outside the project, where nothing is recorded, at the places that can be told in advance.

These are the paths that a command names, and the files by which programs of the user start. Another place may change unnoticed:
only a sandbox keeps commands inside the project.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from newel.storage.files import real_path

_PATH: Final = re.compile(
    r"(?<![^\s'\"`;|&<>()=])[^\s'\"`;|&<>()=]*/[^\s'\"`;|&<>()]+|(?<!\S)~(?!\S)|\$\w+|\$\{\w+\}"
)

MAX_COMMAND: Final = 1 << 16
MAX_PATHS: Final = 64
"""Limits of what is looked at in a command: characters, and paths."""

MAX_NAMES: Final = 1000
"""Entries of a directory that a command names to look at."""

_SYSTEM: Final = ("/dev", "/proc", "/sys", "/run")
_SHARED: Final = frozenset({"/", "/tmp", "/var/tmp"})  # noqa: S108 — where other programs write all the time
_START_UP: Final = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".inputrc"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".config/fish/config.fish", ".config/fish/conf.d"),
    *(".gitconfig", ".config/git/config", ".config/git/hooks", ".ssh", ".ssh/config", ".ssh/authorized_keys"),
    *(".config/autostart", ".config/systemd/user", "Library/LaunchAgents", ".local/bin", "bin"),
    *(
        ".vimrc",
        ".config/nvim",
        ".emacs",
        ".emacs.d/init.el",
        ".tmux.conf",
        ".npmrc",
        ".pypirc",
        ".config/pip/pip.conf",
    ),
)
"""In the user's home: what shells, logins, git and editors run or obey."""

_CRON: Final = (
    "/var/spool/cron/crontabs",
    "/etc/crontab",
    "/etc/cron.d",
    "/etc/profile.d",
    "/etc/ld.so.preload",
)


class OutsideWatch:
    """The places to compare during one run, on this machine. ``root`` is the project, ``ignored`` are folders of Newel's own."""

    def __init__(self, root: str, ignored: Sequence[str] = ()) -> None:
        self._root = root
        self._home = os.path.expanduser("~")  # noqa: PTH111 — an unknown home stays as it is
        self._within = tuple(f"{folder.rstrip('/')}/" for folder in (root, *_SYSTEM, *ignored))
        self._before: dict[str, int] = {}

    def look(self, command: str) -> None:
        """Before a command: note how the places are that it names."""
        if not self._before:
            for path in (*(f"{self._home}/{name}" for name in _START_UP), *_CRON):
                self._note(path)
        for path in self._paths(command[:MAX_COMMAND]):
            self._note(path)
            for name in _names(path):
                self._note(f"{path}/{name}")

    def changed(self) -> list[str]:
        """The places that have changed since they were noted, for display."""
        changed = [path for path, before in self._before.items() if _time_of(path) != before]
        new = [f"{path}/{name}" for path in changed for name in _names(path)]
        new = [path for path in new if path not in self._before]
        # A directory changes with its entries, each of which is known by now.
        filled = {os.path.dirname(path) for path in (*changed, *new)}  # noqa: PTH120 — any bytes
        return [self._shown(path) for path in sorted({*changed, *new} - filled)]

    def _note(self, path: str) -> None:
        if path not in self._before and not f"{path}/".startswith(self._within) and path not in _SHARED:
            self._before[path] = _time_of(path)

    def _paths(self, command: str) -> Iterator[str]:
        for found, match in enumerate(_PATH.finditer(command)):
            if found == MAX_PATHS:
                return
            word = os.path.expandvars(os.path.expanduser(match[0]))  # noqa: PTH111 — an unknown home stays as it is
            if "/" in word and "\0" not in word:
                yield real_path(os.path.join(self._root, word))  # noqa: PTH118 — may be any bytes

    def _shown(self, path: str) -> str:
        home = self._home.rstrip("/") + "/"
        shown = f"~/{path.removeprefix(home)}" if path.startswith(home) else path
        return shown + ("/" if Path(path).is_dir() else "")


def _time_of(path: str) -> int:
    """When a place changed last; 0 if there is nothing. Of a directory only its own: its entries are noted where that matters."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0


def _names(path: str) -> list[str]:
    if path in _SHARED or not os.path.isdir(path):  # noqa: PTH112 — any bytes
        return []
    try:
        names = os.listdir(path)  # noqa: PTH208 — any bytes
    except OSError:
        return []
    return names if len(names) <= MAX_NAMES else []
