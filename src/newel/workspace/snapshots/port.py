"""Ports of snapshots: the source of files, on this machine or a host, and the store of contents; with the values they exchange."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from newel.workspace.snapshots.ignore_rules import IgnoreRules
from newel.workspace.snapshots.tree import FileSnapshot, FileStat
from newel.workspace.snapshots.uncovered import UncoveredChanges

T = TypeVar("T")

GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Errors for a directory or file that was deleted or replaced by a link."""


class ScanCancelled(Exception):
    """The scan was cancelled."""


class Reading(NamedTuple):
    """A file's content or a link's target; None if it is too long, or neither. ``fresh``: it was written so recently that its
    times cannot reveal another write.
    """

    data: bytes | None
    found: FileStat
    fresh: bool


class Digest(NamedTuple):
    """The SHA-256 of a file's content; ``fresh`` as in ``Reading``."""

    sha256: bytes
    found: FileStat
    fresh: bool


Entries = Iterable[tuple[str, FileStat]]
"""Names in a directory with their stat; of a directory only the mode need be valid."""

Touched = dict[str, set[str]]
"""Touched names by directory."""


class SnapshotSource(Protocol):
    """The directories and files below a root. Paths are relative to it; its own is empty.

    Most methods block, and are for work ``within``, one at a time; ``is_quiet`` and ``close`` are for any thread. Raises ``OSError``
    with what a file system answers, and ``WorkspaceError`` for all else.
    """

    @property
    def root(self) -> str: ...

    @property
    def excluded(self) -> Collection[str]:
        """Paths that are never covered, such as that of the store."""
        ...

    @property
    def rules(self) -> IgnoreRules: ...

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run work in a thread and return its result. If this is cancelled, the work continues until it notices."""
        ...

    def cancel(self) -> None:
        """Make work that waits for the event loop raise ``ScanCancelled``. Called from the event loop's thread."""
        ...

    def touched(self, linked: Iterable[str], /, *, everywhere: bool) -> Touched | None:
        """The names touched since the last call, and the files ``linked`` if changes under their other names go unnoticed. None
        means everything, as always with ``everywhere``.
        """
        ...

    def start(self) -> None:
        """Prepare a scan, until ``finish``. Raises ``OSError`` if the root does not exist."""
        ...

    def prefetch(self, paths: Iterable[str]) -> None:
        """These directories will be requested: fetch them in one go if they are remote."""
        ...

    def entries(self, path: str, names: Collection[str] | None) -> Entries:
        """The entries of a directory: all, or some names. A directory that is listed whole is watched from then on."""
        ...

    def read(self, paths: Iterable[tuple[str, int]], limit: int) -> Iterator[tuple[str, Reading | OSError]]:
        """Contents of files, each ``paths`` with its expected size; consistent unless a writer prevents it. ``paths`` is
        consumed as late as possible.
        """
        ...

    def digest(self, path: str, /) -> Digest | None:
        """The hash of a regular file that is too large to be read; None if it is not to be had. Raises ``OSError``."""
        ...

    def unwatch(self, path: str) -> None:
        """A directory was deleted."""
        ...

    def finish(self) -> None: ...

    def is_quiet(self) -> bool:
        """Whether ``touched`` would be empty, if that is known without waiting."""
        ...

    def changed_at(self, path: str, /) -> int:
        """When a file anywhere was changed last, by its absolute path, in nanoseconds on the clock of the files; 0 if unknown."""
        ...

    def uncovered(self, paths: Iterable[str], since_ns: int, until_ns: int, /) -> UncoveredChanges:
        """What changed between two moments on the clock of the files at paths that are not covered, and below them, as far as that
        can be found out in a moment.
        """
        ...

    def umask(self) -> int:
        """Permission bits that new files and folders lack."""
        ...

    def clock_offset_ns(self) -> int:
        """A lower bound for the clock of the files' times minus this machine's, in nanoseconds."""
        ...

    def close(self) -> None:
        """Release the watches. The source can be used again."""
        ...


class FileChange(msgspec.Struct, frozen=True):
    """``path`` is relative to the root, with ``/``; bytes that are not UTF-8 are in it as ``os.fsdecode`` puts them.
    None stands for no file.
    """

    path: str
    before: FileSnapshot | None
    after: FileSnapshot | None


class WorkspaceChanges(msgspec.Struct, frozen=True):
    """``folders`` are new; ``notices`` are messages for the user, each delivered once; ``uncovered`` is known at the end of a run."""

    files: list[FileChange]
    folders: list[str]
    notices: list[str]
    uncovered: UncoveredChanges = UncoveredChanges()


DATA_FILE: Final = 1 << 20
"""In bytes: larger files are rarely sources."""

DIGESTED: Final = 4 << 30
"""In bytes: of larger files not even the hash is known."""


class SnapshotLimits(msgspec.Struct, frozen=True, kw_only=True):
    """``file`` bounds the bytes of a file that is copied, ``total`` those of all copies, ``data`` those of the copies of files larger than
    ``DATA_FILE``, ``files`` the number of files. Every ``recheck_s`` seconds all files are scanned, whatever the system reports.
    """

    file: int = 32 << 20
    total: int = 512 << 20
    data: int = 128 << 20
    files: int = 200_000
    recheck_s: float = 60.0


class BlobStore(Protocol):
    """Stores contents. Thread-safe."""

    def put_blobs(
        self, blobs: Sequence[bytes], *, names: Sequence[str] | None = None, flush: bool = True
    ) -> Sequence[str]:
        """Store contents; returns ``names``, their SHA-256 in hexadecimal, which the caller may know. Without ``flush`` they survive a
        power cut only after a later call with it.
        """
        ...

    def blob(self, sha256: str) -> bytes: ...
