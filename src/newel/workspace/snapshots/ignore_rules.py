"""Which files of a project are excluded: those that git ignores; without git, well-known build directories."""

from __future__ import annotations

import bisect
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from newel.workspace.disk.dir_fd import is_temporary_file
from newel.workspace.glob import is_text
from newel.workspace.snapshots.tree import split

if TYPE_CHECKING:
    from newel.workspace.git import RunGit

NEVER: Final = frozenset({".git", ".hg", ".jj", ".svn"})
"""Stores of version control systems. Undoing changes to single files in them would corrupt them."""


BUILD_DIRS: Final = frozenset(
    {
        ".cache",
        ".gradle",
        ".mypy_cache",
        ".next",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".tox",
        ".venv",
        "__pycache__",
        "node_modules",
        "target",
        "venv",
    }
)


def is_never_covered(name: str) -> bool:
    """Whether the name is excluded by any rules: a version control store, or a file that is being written."""
    return name in NEVER or is_temporary_file(name)


class IgnoreRule(NamedTuple):
    """The rule by which git ignores a file: the absolute path of the file with the rule, and its pattern."""

    source: str
    pattern: str


class IgnoreRules:
    """Asks git about many paths at once. ``failed`` are the repositories for which it could not answer since ``refresh``; the rules
    without git then apply.
    """

    def __init__(self, root: str, run_git: RunGit, find_repository: Callable[[str], str | None]) -> None:
        self._root = root
        self._run_git = run_git
        self._find_repository = find_repository
        self.failed: set[str] = set()
        self._tracked: dict[str, list[bytes]] = {}

    def repository_of_root(self) -> str | None:
        """The empty path if the root is in a git repository that does not ignore it, else None."""
        top = self._find_repository(self._root)
        if top is None:
            return None
        inside = os.path.relpath(self._root, top)
        return None if inside != "." and self._check_ignore(top, [inside]) else ""

    def excluded(
        self, paths: Iterable[tuple[str, str | None]], *, blocked: Collection[str | None] = ()
    ) -> dict[str, IgnoreRule | None]:
        """The excluded ones of existing paths, each given with its repository (see ``FolderState``), with their rules; None for
        build directories without git. In ``blocked`` repositories git must not be asked.
        """
        asked: defaultdict[str | None, list[str]] = defaultdict(list)
        for path, repository in paths:
            asked[repository].append(path)
        out: dict[str, IgnoreRule | None] = {}
        for repository, some in asked.items():
            ignored = None if repository is None or repository in blocked else self._ask(repository, some)
            if ignored is None:
                if repository is not None:
                    self.failed.add(repository)
                out |= {path: None for path in some if split(path)[1] in BUILD_DIRS}
            else:
                out |= ignored
        return out

    def refresh(self) -> None:
        """Forget which files git tracks, and where it failed: this may have changed."""
        self._tracked.clear()
        self.failed.clear()

    def is_tracked(self, path: str, repository: str | None) -> bool | None:
        """Whether git tracks a file; None without a repository, and with one that tracks nothing."""
        if repository is None:
            return None
        tracked = self._tracked_in(f"{self._root}/{repository}")
        name = os.fsencode(path[len(repository) + 1 :] if repository else path)
        at = bisect.bisect_left(tracked, name)
        return at < len(tracked) and tracked[at] == name if tracked[-1] else None

    def _ask(self, repository: str, paths: list[str]) -> dict[str, IgnoreRule] | None:
        """None if git fails."""
        skip = len(repository) + 1 if repository else 0
        folder = f"{self._root}/{repository}"
        ignored = self._check_ignore(folder, [path[skip:] for path in paths])
        return (
            None
            if ignored is None
            else {path: ignored[path[skip:]] for path in paths if path[skip:] in ignored}
        )

    def _check_ignore(self, folder: str, paths: list[str]) -> dict[str, IgnoreRule] | None:
        # Without `./`, a leading colon would be pathspec magic. Without --no-index, git compares each path with each tracked one.
        stdin = b"\0".join(b"./" + os.fsencode(path) for path in paths) + b"\0"
        arguments = ("check-ignore", "--no-index", "--verbose", "-z", "--stdin")
        answer = self._run_git(folder, *arguments, stdin=stdin, ok_codes=(0, 1))  # 1: it ignores none of them
        if answer is None:
            return None
        fields = iter(answer.split(b"\0")[:-1])
        ignored: dict[str, IgnoreRule] = {}
        top = (self._find_repository(folder) or folder) if answer else ""
        for source, _, pattern, path in zip(fields, fields, fields, fields, strict=True):
            name = path.removeprefix(b"./")
            if pattern.startswith(b"!") or self._is_tracked(folder, name):
                continue  # a rule that makes an exception is listed, too
            where = os.path.join(top, os.fsdecode(source))  # noqa: PTH118 — a root may be any bytes
            ignored[os.fsdecode(name)] = IgnoreRule(where, os.fsdecode(pattern))
        return ignored

    def _is_tracked(self, folder: str, name: bytes) -> bool:
        """Whether git tracks the file, or one below it; its ignore rules do not apply to tracked files."""
        tracked = self._tracked_in(folder)
        for entry in (name, name + b"/"):
            at = bisect.bisect_left(tracked, entry)
            if at < len(tracked) and (tracked[at] == entry or tracked[at].startswith(name + b"/")):
                return True
        return False

    def _tracked_in(self, folder: str) -> list[bytes]:
        """The names of tracked files, sorted, with an empty one."""
        if folder not in self._tracked:
            self._tracked[folder] = sorted((self._run_git(folder, "ls-files", "-z") or b"").split(b"\0"))
        return self._tracked[folder]


class GitView(IgnoreRules):
    """Git's view of a project's files, for file browsers, on any host. Use once: it does not notice later changes. Methods block."""

    def ignored(self, folder: str, names: Sequence[str]) -> set[str]:
        """The names in a folder ("" is the root) that git ignores; without git, build directories."""
        if not BUILD_DIRS.isdisjoint(folder.split("/")):
            return set(names)
        repository = self._repository(folder)
        prefix = f"{folder}/" if folder else ""
        out = self.excluded((prefix + name, repository) for name in names)
        return {path.removeprefix(prefix) for path in out}

    def files(self) -> list[str] | None:
        """The project's files without those that git ignores; None if there is no git repository."""
        if self.repository_of_root() is None:
            return None
        arguments = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
        answer = self._run_git(self._root, *arguments)
        if answer is None:
            return None
        names = (os.fsdecode(name) for name in answer.split(b"\0")[:-1])
        return [name for name in names if is_text(name) and not name.endswith("/")]

    def _repository(self, folder: str) -> str | None:
        """The folder, relative to the root, whose repository applies to a folder; None if none does."""
        if folder and (top := self._find_repository(f"{self._root}/{folder}")) is not None:
            inside = os.path.relpath(top, self._root)
            if inside != "." and not inside.startswith(".."):
                return inside
        return self.repository_of_root()
