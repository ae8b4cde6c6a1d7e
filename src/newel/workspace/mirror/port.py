"""The disk that a project and its copy lie on, this machine's or a host's. What a mirror decides, it decides the same for both."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple, Protocol, Self, TypeVar

from newel.workspace.git import GitBackend
from newel.workspace.snapshots.tree import FileStat

T = TypeVar("T")


class FileContent(NamedTuple):
    """A file as it shall be, whatever the project has; ``mode`` are its permission bits. Of a symbolic link it has the bits
    of its kind, and ``data`` is the target.
    """

    data: bytes
    mode: int


class Signature(NamedTuple):
    """What tells that a file was written since it was copied."""

    modified: int
    changed: int
    size: int
    mode: int
    number: int

    @classmethod
    def of(cls, seen: FileStat) -> Self:
        return cls(seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_mode, seen.st_ino)


class CopyResult(Enum):
    """What became of a file that was to be copied. ``UNCERTAIN``: it may have been written since, or is gone."""

    COPIED = "copied"
    UNCERTAIN = "uncertain"
    UNREADABLE = "unreadable"


class Exclusions(NamedTuple):
    """What of a project is not copied: ``paths``, relative to it, and all of some ``names``, with what is below them."""

    paths: Collection[str] = frozenset()
    names: Collection[str] = frozenset()

    def matches(self, path: str, name: str, *, is_folder: bool) -> bool:
        if name == ".git":
            # The root's own is made anew; one that is a file leads into another repository.
            return path == ".git" or not is_folder
        return path in self.paths or name in self.names


class Layout(NamedTuple):
    """``place`` is the folder of one copy alone. In it lies the copy of what is ``top``, the folder of the repository that
    the project is in, None for none: of that there is the project, where it is there.
    """

    project: str
    top: str | None
    place: str

    @property
    def inside(self) -> str:
        """Where in the repository the project is; empty for all of it."""
        return posixpath.relpath(self.project, self.top) if self.top not in {None, self.project} else ""

    @property
    def copied_top(self) -> str:
        return posixpath.join(self.place, posixpath.basename(self.top or self.project) or "files")

    @property
    def root(self) -> str:
        """The copy of the project."""
        return posixpath.join(self.copied_top, self.inside).rstrip("/")


class MirrorBackend(GitBackend, Protocol):
    """A project and its copy. Paths are relative to both; no link in the copy leads a change out of it.

    Methods other than ``run_in_thread``, ``run_in_background`` and ``release`` block, and are for work within either of these. They raise ``OSError``,
    ``WorkspaceError``, and ``Stopped`` where nobody waits for the work any more.
    """

    @property
    def layout(self) -> Layout: ...

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """What work returns or raises that is done in a thread. If this is cancelled, the work goes on until it finds out."""
        ...

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Do work beside everything else; nobody waits for it."""
        ...

    def acquire(self) -> bool:
        """Say that the copy is in use. False if it was not there any more: then there is an empty one."""
        ...

    def walk(self, left_out: Exclusions) -> Iterator[tuple[str, Signature]]:
        """The regular files and the links of the project."""
        ...

    def copy(self, files: Mapping[str, Signature]) -> Iterator[tuple[str, CopyResult]]:
        """Copy files of the project that were seen so, whatever lies in their place."""
        ...

    def remove(self, paths: Iterable[str]) -> None:
        """Have nothing at these paths of the copy. A folder's path comes before those in it."""
        ...

    def write(self, contents: Mapping[str, FileContent]) -> None:
        """Have these contents in the copy. A file that is like that already stays as it is."""
        ...

    def clear_copy(self) -> None:
        """Have nothing in the copy, so that its room is others'. It is used again after the next ``acquire``."""
        ...

    def release(self) -> None:
        """Have the copy removed soon. For any thread, and for the end of the process."""
        ...
