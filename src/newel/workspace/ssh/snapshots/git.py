"""Asking git on a host, without running anything that a repository names."""

from __future__ import annotations

import os
from collections.abc import Collection

from newel.workspace.git import IN_SH
from newel.workspace.ssh.port import quoted
from newel.workspace.ssh.snapshots.rooted_shell import RootedShell


class HostGit:
    """For work that is done within the ``ThreadBridge`` of ``shell``. Methods raise what that does. ``changes``: git is told to change
    something, too.
    """

    def __init__(self, shell: RootedShell, *, changes: bool = False) -> None:
        self._shell = shell
        self._ask_in = shell.change_in if changes else shell.ask_in

    def ask(self, folder: str, *words: str, given: bytes = b"", good: Collection[int] = (0,)) -> bytes | None:
        """As ``newel.workspace.git.ask_git``."""
        asked = " ".join(map(quoted, words))
        answer = self._ask_in(folder, f"{IN_SH} {asked} 2>/dev/null", given)
        return answer.data if answer.status in good else None

    def top_of(self, folder: str) -> str | None:
        """As ``newel.workspace.git.top_of``."""
        text = (
            f'd={quoted(folder)}; while [ ! -e "$d/.git" ] && [ ! -L "$d/.git" ] && [ "$d" ]; do d=${{d%/*}}; done; '
            '[ -e "$d/.git" ] || [ -L "$d/.git" ] && printf %s "${d:-/}"'
        )
        answer = self._shell.ask(f"({text})")
        return os.fsdecode(answer.data) if answer.status == 0 else None
