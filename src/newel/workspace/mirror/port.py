"""The port to the disk of a project and its copy, on this machine or a host."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple, Protocol, Self, TypeVar

from newel.workspace.git import GitBackend
from newel.workspace.snapshots.tree import FileStat

T = TypeVar("T")


class FileContent(NamedTuple):
    """The content of a file in the copy. ``mode`` has the permission bits; for a symbolic link it has the file type bits, and
    ``data`` is the target.
    """

    data: bytes
    mode: int


class Signature(NamedTuple):
    """Differs if a file was written since it was copied."""

    modified: int
    changed: int
    size: int
    mode: int
    number: int

    @classmethod
    def of(cls, seen: FileStat) -> Self:
        return cls(seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_mode, seen.st_ino)


class CopyResult(Enum):
    """The outcome for one file. ``UNCERTAIN``: it may have changed since, or was deleted."""

    COPIED = "copied"
    UNCERTAIN = "uncertain"
    UNREADABLE = "unreadable"


class Exclusions(NamedTuple):
    """The parts of a project that are not copied: ``paths``, relative to it, and all of certain ``names``."""

    paths: Collection[str] = frozenset()
    names: Collection[str] = frozenset()

    def matches(self, path: str, name: str, *, is_folder: bool) -> bool:
        if name == ".git":
            # The root's own is created for the copy; a `.git` file leads into another repository.
            return path == ".git" or not is_folder
        return path in self.paths or name in self.names


class Layout(NamedTuple):
    """``place`` is the folder for one copy. In it is a copy of ``top``, the folder of the project's repository, with the project
    at the same relative path; ``top`` is None without a repository.
    """

    project: str
    top: str | None
    place: str

    @property
    def inside(self) -> str:
        """The project's path within the repository; empty if they are the same."""
        return posixpath.relpath(self.project, self.top) if self.top not in {None, self.project} else ""

    @property
    def copied_top(self) -> str:
        return posixpath.join(self.place, posixpath.basename(self.top or self.project) or "files")

    @property
    def root(self) -> str:
        """The copy of the project."""
        return posixpath.join(self.copied_top, self.inside).rstrip("/")


class MirrorBackend(GitBackend, Protocol):
    """A project and its copy. Paths are relative to either; no link in the copy redirects a write out of it.

    Methods other than ``run_in_thread``, ``run_in_background`` and ``release`` block, and must run within one of the first two.
    They raise ``OSError``, ``WorkspaceError``, and ``ScanCancelled`` after a cancellation.
    """

    @property
    def layout(self) -> Layout: ...

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run work in a thread and return its result. If this is cancelled, the work continues until it notices."""
        ...

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Start work without waiting for it."""
        ...

    def acquire(self) -> bool:
        """Mark the copy as in use. False if it had been removed: then it is a new, empty one."""
        ...

    def walk(self, left_out: Exclusions) -> Iterator[tuple[str, Signature]]:
        """The regular files and the links of the project."""
        ...

    def copy(self, files: Mapping[str, Signature]) -> Iterator[tuple[str, CopyResult]]:
        """Copy project files with these signatures, replacing what is in the copy."""
        ...

    def remove(self, paths: Iterable[str]) -> None:
        """Remove these paths from the copy. A folder comes before the paths in it."""
        ...

    def write(self, contents: Mapping[str, FileContent]) -> None:
        """Write these contents into the copy. Files that already have them are left alone."""
        ...

    def clear_copy(self) -> None:
        """Remove all files of the copy to free the space. The next ``acquire`` starts with an empty copy."""
        ...

    def release(self) -> None:
        """Have the copy removed soon. Thread-safe; also for the end of the process."""
        ...
