"""What a workspace tells about files and repositories, for commands that only read."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import anyio

from newel.agent.errors import NewelError
from newel.permissions.commands.reading import GIT_SETTINGS
from newel.permissions.secret_paths import SecretPaths
from newel.storage.files import real_path
from newel.workspace.git import RunGit, run_git
from newel.workspace.port import Workspace
from newel.workspace.process.own_programs import own_path
from newel.workspace.sandbox.policy import is_below
from newel.workspace.snapshots.ignore_rules import BUILD_DIRS

MAX_ENTRIES = 50_000
"""Names that are looked at in the folders that a command searches; in larger ones the user is asked."""


_NOT_FOLLOWED: Final = ("hooks", "modules", "lfs", "annex")
"""In a folder of git, what no command of git that reads looks into, hooks aside; links are usual there."""

_LEADING: Final = (
    *("config", "HEAD", "packed-refs", "refs", "refs/heads", "logs"),
    *("objects", "objects/info", "objects/info/alternates", "objects/pack"),
)
"""In a folder of git, what is not as before once it leads elsewhere."""


class ViewedFiles(Protocol):
    """The files of the machine that commands run on. All but ``in_thread`` block."""

    @property
    def home(self) -> str: ...

    @property
    def run_git(self) -> RunGit: ...

    @property
    def names_repository(self) -> bool:
        """Whether the environment of commands names a repository, so that git looks for none."""
        ...

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

    def led_to(self, folder: str, skipped: Collection[str], /) -> Iterator[str]:
        """The real path of a folder, then those of what the links below it lead to, without what is below the names ``skipped`` in it.
        Raises ``OSError`` and ``NewelError`` if not all can be listed.
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

    @property
    def names_repository(self) -> bool:
        return "GIT_DIR" in os.environ

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
                yield real_path(entry.path) if entry.is_symlink() else entry.path
                if entry.is_dir(follow_symlinks=False) and entry.name not in BUILD_DIRS:
                    waiting.append(entry.path)

    def led_to(self, folder: str, skipped: Collection[str], /) -> Iterator[str]:
        yield real_path(folder)
        waiting = [folder]
        while waiting:
            for entry in list(os.scandir(waiting.pop())):
                if entry.name in skipped and entry.path == f"{folder}/{entry.name}":
                    continue
                if entry.is_symlink():
                    yield real_path(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)

    def stamps(self, paths: Sequence[str], /) -> list[tuple[int, ...] | None]:
        return list(map(_stamp, paths))


class WorkspaceView:
    """Implements ``ProjectView``."""

    def __init__(
        self, workspace: Workspace, places: SecretPaths, files: ViewedFiles, lenders: Sequence[str] = ()
    ) -> None:
        """``lenders`` are folders of objects, outside of the project, that its repository may borrow."""
        self._lenders = lenders
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
        return await self._holds_in(folder, self._is_git_safe)

    async def has_no_repository(self, folder: str, /) -> bool:
        return await self._holds_in(folder, self._has_no_repository)

    async def _holds_in(self, folder: str, check: Callable[[str], bool]) -> bool:
        try:
            where = await self._workspace.resolve(folder or ".")
            return await self._files.in_thread(lambda: check(where))
        except NewelError:
            return False

    def _has_no_repository(self, folder: str) -> bool:
        """Whether neither the folder nor one above it has a ``.git`` or is itself a folder of git. What git says would not do: it also
        finds none if a setting forbids one, which the command's own environment may allow.
        """
        if self._files.names_repository:
            return False
        folders = [folder]
        while (above := posixpath.dirname(folders[-1])) != folders[-1]:
            folders.append(above)
        return not any(
            self._files.stamps([posixpath.join(each, name) for each in folders for name in (".git", "HEAD")])
        )

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
        found = self._find_repository(folder)
        if found is None:
            return False
        top, own, common = found
        stamps = files.stamps(
            [f"{own}/index", f"{own}/config.worktree", *(f"{common}/{name}" for name in _LEADING)]
        )
        known = self._checked.get(top)
        if known is None or known[0] != stamps:
            hooks = self._find_hooks(top, common) if self._leads_nowhere(top, common) else None
            known = self._checked[top] = (stamps, hooks)
        hooks = known[1]
        # The one hook that reading may run.
        return hooks is not None and not any(files.stamps([f"{path}/post-index-change" for path in hooks]))

    def _find_repository(self, folder: str) -> tuple[str, str, str] | None:
        """The top folder of a folder's repository, the folder of git for it, and the one that linked working trees share; None if git
        finds none, or one that is not the folder's own. ``.git`` of a hostile project may name any other in a ``commondir``.
        """
        names = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir")
        answer = self._files.run_git(folder, "rev-parse", *names)
        if answer is None:
            return None
        top, own, common = os.fsdecode(answer).split("\n")[:3]
        common = posixpath.normpath(posixpath.join(folder, common))
        if own == f"{top}/.git":
            return (top, own, common) if common == own else None
        is_linked = posixpath.dirname(own) == f"{common}/worktrees" and self._is_linked(top)
        return (top, own, common) if is_linked else None

    def _leads_nowhere(self, top: str, common: str) -> bool:
        """Whether all of a repository is in its folder, but for objects that it borrows within the project, or in a copy from the
        project. Git follows links and alternates, and would show what it finds there.
        """
        counted = self._files.run_git(top, "count-objects", "-v")
        if counted is None:
            return False
        prefix = b"alternate: "
        borrowed = [
            os.fsdecode(line.removeprefix(prefix)) for line in counted.splitlines() if line.startswith(prefix)
        ]
        root = self._workspace.root
        lenders = [root, *([self._places.original(root), *self._lenders] if borrowed else [])]
        try:
            is_whole = self._is_within(common, [common], _NOT_FOLLOWED)
            if not is_whole or all(self._is_within(path, lenders) for path in borrowed):
                return is_whole
            # That of the project itself, of which its folder may be only a part, or a working tree.
            original = self._find_repository(self._places.original(root))
            lenders += [] if original is None else [f"{original[2]}/objects"]
            return all(self._is_within(path, lenders) for path in borrowed)
        except OSError:
            return False

    def _is_within(self, folder: str, places: Sequence[str], skipped: Collection[str] = ()) -> bool:
        """Whether a folder is in one of those places, and no link in it leads out of it. Raises ``OSError``."""
        real, *targets = self._files.led_to(folder, skipped)
        return is_below(real, places) and all(is_below(path, [real]) for path in targets)

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
