"""Notices settings of other programs that commands in a sandbox have created.

What exists is read-only in the sandbox. What does not exist cannot be: a mount needs something to be mounted on, and creating an empty
``.envrc`` or ``.vscode`` in a project, to remove it at the end, would leave it there after a kill, and in every commit meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, Unpack

import msgspec

from newel.workspace.port import Completed, DelegatingWorkspace, RunOptions, Workspace

Notify = Callable[[str], Awaitable[None]]

MAX_NAMED: Final = 3
"""Files of a folder that a message names."""

CREATED: Final = (
    "New in the project: {paths}. Other programs run what it says (git, an editor, a shell), outside the sandbox too: the user should read it "
    "before using them here."
)


class SettingsWatch(DelegatingWorkspace[Workspace]):
    """A workspace that says so, to the model and through ``notify``, when a command has created one of ``watched`` paths."""

    def __init__(self, inner: Workspace, watched: Iterable[str], notify: Notify) -> None:
        super().__init__(inner)
        self._absent = [path for path in watched if not os.path.lexists(path)]
        self._notify = notify

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> Completed:
        done = await self._inner.run(command, **options)
        # Also what a process in the background has created since the last one.
        created = _existing(self._absent)
        if not created:
            return done
        self._absent = [path for path in self._absent if path not in created]
        root = self._inner.root
        message = CREATED.format(paths=", ".join(_named(path, root) for path in created))
        await self._notify(message)
        separator = "" if done.stderr.endswith("\n") or not done.stderr else "\n"
        return msgspec.structs.replace(done, stderr=f"{done.stderr}{separator}{message}\n")


def _existing(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if os.path.lexists(path)]


def _named(path: str, root: str) -> str:
    """The file, or the first of a folder, relative to the root; those of a folder of git are too many to tell anything."""
    files = [path]
    if not path.endswith("/.git") and not os.path.islink(path):  # noqa: PTH114 — may be any bytes
        files = sorted(str(file) for file in Path(path).rglob("*") if not file.is_dir()) or files
    names = [os.path.relpath(file, root) for file in files[:MAX_NAMED]]
    return ", ".join([*names, *["…"] * (len(files) > MAX_NAMED)])
