"""What a workspace tells about files and repositories, for commands that only read."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from pathlib import Path

import anyio

from newel.agent.errors import NewelError
from newel.permissions.commands.reading import GIT_SETTINGS
from newel.permissions.secret_paths import SecretPaths
from newel.workspace.git import run_git
from newel.workspace.port import SCHEME, Workspace
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS

MAX_ENTRIES = 50_000
"""Names that are looked at in the folders that a command searches; in larger ones the user is asked."""


class WorkspaceView:
    """Implements ``ProjectView``. On a host, what is below a folder and what a repository configures is not looked at."""

    def __init__(self, workspace: Workspace, places: SecretPaths) -> None:
        self._workspace = workspace
        self._places = places
        self._is_local = not workspace.name.startswith(SCHEME)
        self._checked: dict[str, tuple[list[tuple[int, int, int] | None], list[str] | None]] = {}
        """By the top folder of a repository: when it was checked, and what ``_find_hooks`` found."""

    async def may_read(self, paths: Iterable[str], /, *, recurses: bool) -> bool:
        try:
            resolved = [await self._workspace.resolve(path or ".") for path in paths]
        except NewelError:
            return False
        if any(self._places.judge(path).level != "free" for path in resolved):
            return False
        return not recurses or (self._is_local and await anyio.to_thread.run_sync(self._is_open, resolved))

    async def is_git_safe(self, folder: str, /) -> bool:
        if not self._is_local:
            return False
        try:
            where = await self._workspace.resolve(folder or ".")
        except NewelError:
            return False
        return await anyio.to_thread.run_sync(self._is_git_safe, where)

    def _is_open(self, folders: Iterable[str]) -> bool:
        """Whether all that is below folders may be read, as far as names tell, and what links lead to."""
        waiting, left = [folder for folder in folders if Path(folder).is_dir()], MAX_ENTRIES
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:
                return False
            left -= len(entries)
            for entry in entries:
                path = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
                if left < 0 or self._places.judge(path).level != "free":
                    return False
                if entry.is_dir(follow_symlinks=False) and entry.name not in BUILD_DIRS:
                    waiting.append(entry.path)
        return True

    def _is_git_safe(self, folder: str) -> bool:
        answer = run_git(folder, "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
        if answer is None:
            return False
        top, own, common = os.fsdecode(answer).split("\n")[:3]
        common = posixpath.join(folder, common)
        seen = [f"{own}/index", f"{common}/config", f"{own}/config.worktree"]
        stamps = [_stamp(path) for path in seen]
        known = self._checked.get(top)
        if known is None or known[0] != stamps:
            known = self._checked[top] = (stamps, self._find_hooks(top, common))
        hooks = known[1]
        # The one hook that reading may run.
        return hooks is not None and not any(os.path.lexists(f"{path}/post-index-change") for path in hooks)

    def _find_hooks(self, top: str, common: str) -> list[str] | None:
        """The folders of hooks; None if reading may start another program, or shows what may not be read unasked."""
        settings = run_git(top, "config", "--list", "--show-scope", "-z")
        index = run_git(top, "ls-files", "--stage", "-z")
        if settings is None or index is None:
            return None
        hooks = [f"{common}/hooks"]
        fields = settings.split(b"\0")
        for scope, setting in zip(fields[::2], fields[1::2], strict=False):
            name, _, value = os.fsdecode(setting).partition("\n")
            if scope != b"command" and name == "core.hookspath":
                hooks.append(posixpath.join(top, os.path.expanduser(value)))  # noqa: PTH111 — a text of git's
            if scope in {b"local", b"worktree"} and GIT_SETTINGS.fullmatch(name):
                return None
        entries = [entry.partition(b"\t") for entry in index.split(b"\0")[:-1]]
        if any(what.startswith(b"160000") for what, _, _ in entries):
            return None  # git goes into it, and obeys what is configured there
        if self._places.any_holds_secrets([f"{top}/{os.fsdecode(path)}" for _, _, path in entries]):
            return None
        return hooks


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
