"""Notices settings of other programs that commands in a sandbox have created.

What exists is read-only in the sandbox. What does not exist cannot be: a mount needs something to be mounted on, and creating an empty
``.envrc`` or ``.vscode`` in a project, to remove it at the end, would leave it there after a kill, and in every commit meanwhile.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Unpack

import msgspec

from newel.agent.errors import WorkspaceError
from newel.workspace.port import Completed, DelegatingWorkspace, RunOptions, Workspace

Notify = Callable[[str], Awaitable[None]]

MAX_NAMED: Final = 3
"""Files of a folder that a message names."""

MAX_LISTED: Final = 100
"""Entries of each folder that are looked at for that."""

CREATED: Final = (
    "New in the project: {paths}. Other programs run what it says (git, an editor, a shell), outside the sandbox too: the user should read it "
    "before using them here."
)


class SettingsWatch(DelegatingWorkspace[Workspace]):
    """A workspace that says so, to the model and through ``notify``, when a command has created one of ``watched`` paths."""

    def __init__(self, inner: Workspace, watched: Iterable[str], notify: Notify) -> None:
        super().__init__(inner)
        self._watched = list(watched)
        self._absent: list[str] | None = None
        """Those that do not exist; None before the first command."""
        self._notify = notify

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> Completed:
        if self._absent is None:
            existing = await self._existing(self._watched)
            self._absent = [path for path in self._watched if path not in existing]
        done = await self._inner.run(command, **options)
        # Also what a process in the background has created since the last one.
        created = await self._existing(self._absent)
        if not created:
            return done
        self._absent = [path for path in self._absent if path not in created]
        message = CREATED.format(paths=", ".join([await self._named(path) for path in created]))
        await self._notify(message)
        separator = "" if done.stderr.endswith("\n") or not done.stderr else "\n"
        return msgspec.structs.replace(done, stderr=f"{done.stderr}{separator}{message}\n")

    async def _existing(self, paths: list[str]) -> list[str]:
        infos = await self._inner.stats(paths)
        return [path for path, info in zip(paths, infos, strict=True) if info is not None]

    async def _named(self, path: str) -> str:
        """The file, or the first of a folder, relative to the root; those of a folder of git are too many to tell anything."""
        files: list[str] = []
        folders = [] if path.endswith("/.git") else [path]
        while folders and len(files) <= MAX_NAMED:
            folder = folders.pop()
            with contextlib.suppress(WorkspaceError):  # a file, or a link of a folder
                for entry in await self._inner.list(folder, limit=MAX_LISTED, nofollow=True):
                    is_folder = entry.kind == "directory" and not entry.is_link
                    (folders if is_folder else files).append(f"{folder}/{entry.name}")
        names = [posixpath.relpath(file, self._inner.root) for file in sorted(files or [path])[:MAX_NAMED]]
        return ", ".join([*names, *["…"] * (len(files) > MAX_NAMED)])
