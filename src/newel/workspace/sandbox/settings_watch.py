"""Notices settings of other programs that commands in a sandbox have created, or in a partial sandbox changed.

What exists is read-only in the sandbox, but for a partial one. What does not exist cannot be: a mount needs something to be mounted on, and
creating an empty ``.envrc`` or ``.vscode`` in a project, to remove it at the end, would leave it there after a kill, and in every commit
meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, Unpack

import msgspec

from newel.agent.errors import WorkspaceError
from newel.workspace.port import CommandResult, DelegatingWorkspace, RunOptions, Workspace

Notify = Callable[[str], Awaitable[None]]

MAX_NAMED: Final = 3
"""Files of a folder that a message names."""

MAX_LISTED: Final = 100
"""Entries of each folder that are looked at for that."""

CREATED: Final = (
    "New in the project: {paths}. Other programs run what it says (git, an editor, a shell), outside the sandbox too: the user should read it "
    "before using them here."
)


CHANGED: Final = (
    "Changed in the project: {paths}. Other programs run what it says (git, an editor, a shell), outside the sandbox too, which cannot "
    "protect it: the user should read it before using them here."
)

OF_GIT: Final = ("config", "config.worktree", "commondir", "hooks", "info/attributes", "modules")
"""What runs programs in a folder of git. The rest of it changes with every commit."""

MAX_FILES: Final = 2_000
"""Files that are watched."""

FileStamp = tuple[int, int, int]
"""The inode, the size and the time of the last change of any kind, which no program can set."""


class SettingsWatch(DelegatingWorkspace[Workspace]):
    """A workspace that says so, to the model and through ``notify``, when a command has created one of ``watched`` paths, or changed one of
    those that are ``changing``: paths of this machine that exist, and are not read-only.
    """

    def __init__(
        self, inner: Workspace, watched: Iterable[str], notify: Notify, changing: Iterable[str] = ()
    ) -> None:
        super().__init__(inner)
        self._watched = list(watched)
        self._absent: list[str] | None = None
        """Those that do not exist; None before the first command."""
        self._changing = set(changing)
        self._notify = notify

    async def run(self, command: str, /, **options: Unpack[RunOptions]) -> CommandResult:
        if self._absent is None:
            existing = await self._existing(self._watched)
            self._absent = [path for path in self._watched if path not in existing]
        present = [path for path in self._watched if path in self._changing and path not in self._absent]
        before = _states(present)
        done = await self._inner.run(command, **options)
        # Also what a process in the background has created since the last one.
        created = await self._existing(self._absent)
        self._absent = [path for path in self._absent if path not in created]
        after = _states(present)
        changed = sorted(path for path in before.keys() | after if before.get(path) != after.get(path))
        paths = {
            CREATED: [await self._named(path) for path in created],
            CHANGED: self._relative(changed),
        }
        for text, names in paths.items():
            if names:
                message = text.format(paths=", ".join(names))
                await self._notify(message)
                separator = "" if done.stderr.endswith("\n") or not done.stderr else "\n"
                done = msgspec.structs.replace(done, stderr=f"{done.stderr}{separator}{message}\n")
        return done

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
        return ", ".join(self._relative(sorted(files or [path])))

    def _relative(self, files: list[str]) -> list[str]:
        """The first of some files, relative to the root."""
        names = [posixpath.relpath(file, self._inner.root) for file in files]
        return [*names[:MAX_NAMED], *["…"] * (len(names) > MAX_NAMED)]


def _states(paths: Iterable[str]) -> dict[str, FileStamp]:
    """The files at and below paths of this machine; of a folder of git those that run programs."""
    found: dict[str, FileStamp] = {}
    for path in paths:
        is_of_git = os.path.lexists(f"{path}/HEAD")
        for part in [f"{path}/{name}" for name in OF_GIT] if is_of_git else [path]:
            for file in _files_of(part):
                if len(found) < MAX_FILES:
                    with contextlib.suppress(OSError):
                        state = os.lstat(file)
                        found[file] = (state.st_ino, state.st_size, state.st_ctime_ns)
    return found


def _files_of(path: str) -> Iterator[str]:
    if os.path.islink(path) or not os.path.isdir(path):  # noqa: PTH112, PTH114 — may be any bytes
        yield path
        return
    folders = [path]
    while folders:  # a command may have made a thousand in one another
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield entry.path
                elif entry.name != "objects":
                    folders.append(entry.path)
