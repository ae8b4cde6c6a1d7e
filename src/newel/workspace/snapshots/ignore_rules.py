"""Which files of a project are not covered: what git ignores, and without git what is known to be made anew."""

from __future__ import annotations

import bisect
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol

from newel.workspace.disk.dir_fd import is_beside
from newel.workspace.glob import is_text
from newel.workspace.snapshots.tree import split

NEVER: Final = frozenset({".git", ".hg", ".jj", ".svn"})
"""A version control's own store is its own history: to take it back by files would break it."""


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
    """Whether nothing of this name is covered, by whatever rules; nor is a file that is just being written."""
    return name in NEVER or is_beside(name)


class RunGit(Protocol):
    """See ``run_git``."""

    def __call__(
        self, folder: str, *args: str, given: bytes = b"", ok_codes: Collection[int] = (0,)
    ) -> bytes | None: ...


class IgnoreRules:
    """Asks git about many paths at once. A directory that git cannot be asked about has the rules without git: then it
    is ``git_failed``. ``find_repository`` gives the folder of the repository that a folder is in.
    """

    def __init__(self, root: str, run_git: RunGit, find_repository: Callable[[str], str | None]) -> None:
        self._root = root
        self._run_git = run_git
        self._find_repository = find_repository
        self.git_failed = False
        self._tracked: dict[str, list[bytes]] = {}

    def repository_of_root(self) -> str | None:
        """The empty path if the root lies in a git repository whose rules do not ignore all of it, else None."""
        top = self._find_repository(self._root)
        if top is None:
            return None
        inside = os.path.relpath(self._root, top)
        return None if inside != "." and self._ignored(top, [inside]) else ""

    def excluded(self, paths: Iterable[tuple[str, str | None]]) -> set[str]:
        """Of paths that exist, each with the repository it lies in (see ``FolderState``), those that are not covered."""
        asked: defaultdict[str | None, list[str]] = defaultdict(list)
        for path, repository in paths:
            asked[repository].append(path)
        out: set[str] = set()
        for repository, some in asked.items():
            found = None if repository is None else self._ask(repository, some)
            if found is None:
                self.git_failed |= repository is not None
                found = {path for path in some if split(path)[1] in BUILD_DIRS}
            out |= found
        return out

    def clear_cache(self) -> None:
        """What git tracks may be something else from now on."""
        self._tracked.clear()

    def _ask(self, repository: str, paths: list[str]) -> set[str] | None:
        """None if git does not answer."""
        skip = len(repository) + 1 if repository else 0
        folder = f"{self._root}/{repository}"
        found = self._ignored(folder, [path[skip:] for path in paths])
        return None if found is None else {path for path in paths if path[skip:] in found}

    def _ignored(self, folder: str, paths: list[str]) -> set[str] | None:
        # A name that begins with a colon would be read as a command to git. Without --no-index it compares each path with each one that it tracks.
        given = b"\0".join(b"./" + os.fsencode(path) for path in paths) + b"\0"
        words = ("check-ignore", "--no-index", "-z", "--stdin")
        answer = self._run_git(folder, *words, given=given, ok_codes=(0, 1))  # 1: it ignores none of them
        if answer is None:
            return None
        names = [name.removeprefix(b"./") for name in answer.split(b"\0")[:-1]]
        return {os.fsdecode(name) for name in names if not self._is_tracked(folder, name)}

    def _is_tracked(self, folder: str, name: bytes) -> bool:
        """Whether git tracks the file, or one below it, whatever its rules say of new ones."""
        if folder not in self._tracked:
            self._tracked[folder] = sorted((self._run_git(folder, "ls-files", "-z") or b"").split(b"\0"))
        tracked = self._tracked[folder]
        for wanted in (name, name + b"/"):
            at = bisect.bisect_left(tracked, wanted)
            if at < len(tracked) and (tracked[at] == wanted or tracked[at].startswith(name + b"/")):
                return True
        return False


class GitView:
    """What ``run_git`` says in folders whose repository ``find_repository`` finds. Methods block."""

    def __init__(self, root: str, run_git: RunGit, find_repository: Callable[[str], str | None]) -> None:
        self._root = root
        self._run_git = run_git
        self._find_repository = find_repository

    def ignored(self, folder: str, names: Sequence[str]) -> set[str]:
        """Those names in a folder ("": the root) that git ignores; without git, what is known to be made anew."""
        if not BUILD_DIRS.isdisjoint(folder.split("/")):
            return set(names)
        rules = IgnoreRules(self._root, self._run_git, self._find_repository)
        repository = self._repository(folder, rules)
        prefix = f"{folder}/" if folder else ""
        out = rules.excluded((prefix + name, repository) for name in names)
        return {path.removeprefix(prefix) for path in out}

    def files(self) -> list[str] | None:
        """The project's files, without those that git ignores; None where there is no git that knows the project."""
        rules = IgnoreRules(self._root, self._run_git, self._find_repository)
        if rules.repository_of_root() is None:
            return None
        words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
        answer = self._run_git(self._root, *words)
        if answer is None:
            return None
        names = (os.fsdecode(name) for name in answer.split(b"\0")[:-1])
        return [name for name in names if is_text(name) and not name.endswith("/")]

    def _repository(self, folder: str, rules: IgnoreRules) -> str | None:
        """The folder, relative to the root, whose repository a folder is in; None for none that rules here."""
        if folder and (top := self._find_repository(f"{self._root}/{folder}")) is not None:
            inside = os.path.relpath(top, self._root)
            if inside != "." and not inside.startswith(".."):
                return inside
        return rules.repository_of_root()
