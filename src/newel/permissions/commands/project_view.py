"""What a workspace tells about files and repositories, for commands that only read."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import anyio

from newel.agent.errors import NewelError
from newel.permissions.commands.reading import GIT_SETTINGS
from newel.permissions.secret_paths import SecretPaths
from newel.workspace.git import RunGit, run_git
from newel.workspace.port import Workspace
from newel.workspace.process.own_programs import own_path
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS

MAX_ENTRIES = 50_000
"""Names that are looked at in the folders that a command searches; in larger ones the user is asked."""


class ViewedFiles(Protocol):
    """The files of the machine that commands run on. All but ``in_thread`` block."""

    @property
    def home(self) -> str: ...

    @property
    def run_git(self) -> RunGit: ...

    async def in_thread(self, work: Callable[[], bool], /) -> bool:
        """Do work that uses the other methods."""
        ...

    def is_own_program(self, name: str, folder: str, /) -> bool:
        """Whether a command of that name, in a folder, is not a program of the project."""
        ...

    def below(self, folders: Sequence[str], /) -> Iterator[str]:
        """The paths of all that is below folders, without what is in build directories; instead of a link what it leads to. Raises
        ``OSError`` and ``NewelError`` if not all can be listed.
        """
        ...

    def stamps(self, paths: Sequence[str], /) -> list[tuple[int, ...] | None]:
        """What changes with the content of each file, links followed; None for one that does not exist."""
        ...


class LocalViewedFiles:
    """Implements ``ViewedFiles`` for this machine."""

    run_git = staticmethod(run_git)

    @property
    def home(self) -> str:
        return os.path.expanduser("~")  # noqa: PTH111 — an unknown home stays as it is

    async def in_thread(self, work: Callable[[], bool], /) -> bool:
        return await anyio.to_thread.run_sync(work)

    def is_own_program(self, name: str, folder: str, /) -> bool:
        path = os.environ.get("PATH", os.defpath).split(os.pathsep)
        in_folder = os.pathsep.join(os.path.join(folder, entry) for entry in path)  # noqa: PTH118 — texts
        return shutil.which(name, path=in_folder) == shutil.which(name, path=own_path(folder))

    def below(self, folders: Sequence[str], /) -> Iterator[str]:
        waiting = [folder for folder in folders if Path(folder).is_dir()]
        while waiting:
            for entry in list(os.scandir(waiting.pop())):
                yield os.path.realpath(entry.path) if entry.is_symlink() else entry.path
                if entry.is_dir(follow_symlinks=False) and entry.name not in BUILD_DIRS:
                    waiting.append(entry.path)

    def stamps(self, paths: Sequence[str], /) -> list[tuple[int, ...] | None]:
        return list(map(_stamp, paths))


class WorkspaceView:
    """Implements ``ProjectView``."""

    def __init__(self, workspace: Workspace, places: SecretPaths, files: ViewedFiles) -> None:
        self._workspace = workspace
        self._places = places
        self._files = files
        self._checked: dict[str, tuple[list[tuple[int, ...] | None], list[str] | None]] = {}
        """By the top folder of a repository: when it was checked, and what ``_find_hooks`` found."""

    async def may_read(self, paths: Iterable[str], /, *, recurses: bool) -> bool:
        try:
            resolved = [await self._workspace.resolve(path or ".") for path in paths]
            if any(self._places.judge(path).level != "free" for path in resolved):
                return False
            return not recurses or await self._files.in_thread(lambda: self._is_open(resolved))
        except NewelError:
            return False

    async def is_own_program(self, name: str, /) -> bool:
        return await self._files.in_thread(lambda: self._files.is_own_program(name, self._workspace.root))

    async def is_git_safe(self, folder: str, /) -> bool:
        try:
            where = await self._workspace.resolve(folder or ".")
            return await self._files.in_thread(lambda: self._is_git_safe(where))
        except NewelError:
            return False

    def _is_open(self, folders: Sequence[str]) -> bool:
        """Whether all that is below folders may be read, as far as names tell, and what links lead to."""
        left = MAX_ENTRIES
        try:
            for path in self._files.below(folders):
                left -= 1
                if left < 0 or self._places.judge(path).level != "free":
                    return False
        except OSError:
            return False
        return True

    def _is_git_safe(self, folder: str) -> bool:
        files = self._files
        answer = files.run_git(
            folder, "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir"
        )
        if answer is None:
            return False
        top, own, common = os.fsdecode(answer).split("\n")[:3]
        if own != f"{top}/.git" and not self._is_linked(top):
            return False
        common = posixpath.normpath(posixpath.join(folder, common))
        stamps = files.stamps([f"{own}/index", f"{common}/config", f"{own}/config.worktree"])
        known = self._checked.get(top)
        if known is None or known[0] != stamps:
            known = self._checked[top] = (stamps, self._find_hooks(top, common))
        hooks = known[1]
        # The one hook that reading may run.
        return hooks is not None and not any(files.stamps([f"{path}/post-index-change" for path in hooks]))

    def _is_linked(self, top: str) -> bool:
        """Whether the repository, which is elsewhere, names the folder in turn. The ``.git`` of a hostile project may name any."""
        trees = self._files.run_git(top, "worktree", "list", "--porcelain", "-z")
        if trees is None:  # before git 2.36
            trees = (self._files.run_git(top, "worktree", "list", "--porcelain") or b"").replace(b"\n", b"\0")
        return b"worktree " + os.fsencode(top) in trees.split(b"\0")

    def _find_hooks(self, top: str, common: str) -> list[str] | None:
        """The folders of hooks; None if reading may start another program, or shows what may not be read unasked."""
        settings = self._files.run_git(top, "config", "--list", "--show-scope", "-z")
        index = self._files.run_git(top, "ls-files", "--stage", "-z")
        if settings is None or index is None:
            return None
        hooks = [f"{common}/hooks"]
        fields = settings.split(b"\0")
        for scope, setting in zip(fields[::2], fields[1::2], strict=False):
            name, _, value = os.fsdecode(setting).partition("\n")
            if scope != b"command" and name == "core.hookspath":
                hooks.append(posixpath.join(top, re.sub("^~(?=/|$)", lambda _: self._files.home, value)))
                if value.startswith("~") and not value.startswith("~/"):
                    return None  # the home of another user
            if scope in {b"local", b"worktree"} and re.fullmatch(GIT_SETTINGS, name):
                return None
        entries = [entry.partition(b"\t") for entry in index.split(b"\0")[:-1]]
        if any(what.startswith(b"160000") for what, _, _ in entries):
            return None  # git goes into it, and obeys what is configured there
        if self._places.any_holds_secrets([f"{top}/{os.fsdecode(path)}" for _, _, path in entries]):
            return None
        return hooks


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
