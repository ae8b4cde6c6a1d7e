"""Where the files lie that are looked at: on this machine or on a host. What a look decides, it decides the same for both."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from newel.workspace.snapshots.ignore_rules import IgnoreRules
from newel.workspace.snapshots.tree import FileSnapshot, FileStat

T = TypeVar("T")

GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What a source raises where a directory or file was and is no longer, or a link is now."""


class Stopped(Exception):
    """The look was not wanted any more."""


class Reading(NamedTuple):
    """A file's bytes or a link's target, None if it is longer than allowed, or neither. ``fresh``: it was written so shortly before,
    or meanwhile, that its times do not tell whether it was written again.
    """

    data: bytes | None
    found: FileStat
    fresh: bool


Entries = Iterable[tuple[str, FileStat]]
"""Names in a directory, with what they are; of a directory only its mode may be known."""

Touched = dict[str, set[str]]
"""The names that were touched, by directory."""


class SnapshotSource(Protocol):
    """The directories and files below a root. Paths are relative to it; its own is empty.

    Most methods block, and are for work ``within``, one at a time; ``is_quiet`` and ``close`` are for any thread. Raises ``OSError``
    with what a file system answers, and ``WorkspaceError`` for all else.
    """

    @property
    def root(self) -> str: ...

    @property
    def excluded(self) -> Collection[str]:
        """Paths that are not covered, such as where the store itself lies."""
        ...

    @property
    def rules(self) -> IgnoreRules: ...

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """What work returns or raises that is done in a thread. If this is cancelled, the work goes on until it finds out."""
        ...

    def cancel(self) -> None:
        """Have no work wait for what only the thread of the event loop can bring, which calls this. It raises ``Stopped``."""
        ...

    def touched(self, linked: Iterable[str], /, *, everywhere: bool) -> Touched | None:
        """Begin to look, and say where to: at what was touched since this was last asked, and at the files ``linked`` if
        it might not know of those. None for everywhere, always if that is asked for.
        """
        ...

    def start(self) -> None:
        """Be ready for what follows, until ``end``. Raises ``OSError`` if the root is not there."""
        ...

    def prefetch(self, paths: Iterable[str]) -> None:
        """All of these directories will be asked for: what is far away is fetched at once."""
        ...

    def entries(self, path: str, names: Collection[str] | None) -> Entries:
        """What is in a directory: all of it, or some names. Asked for all of it, it counts as looked at from then on."""
        ...

    def read(self, wanted: Iterable[tuple[str, int]], limit: int) -> Iterator[tuple[str, Reading | OSError]]:
        """The contents of files, each with its expected size, as they were at one moment if their writers let that be.
        ``wanted`` is asked for as late as possible.
        """
        ...

    def unwatch(self, path: str) -> None:
        """A directory is gone."""
        ...

    def finish(self) -> None: ...

    def is_quiet(self) -> bool:
        """Whether ``touched`` would say that nothing was, as far as can be told at once."""
        ...

    def umask(self) -> int:
        """The permission bits that new folders do not get."""
        ...

    def clock_offset_ns(self) -> int:
        """The least by which the clock that these files' times are of is ahead of ours, in nanoseconds."""
        ...

    def close(self) -> None:
        """Let the system forget what was watched. The source can be used again."""
        ...


class FileChange(msgspec.Struct, frozen=True):
    """``path`` is relative to the root, with ``/``; bytes that are not UTF-8 are in it as ``os.fsdecode`` puts them.
    None stands for no file.
    """

    path: str
    before: FileSnapshot | None
    after: FileSnapshot | None


class WorkspaceChanges(msgspec.Struct, frozen=True):
    """``folders`` are those that came into being; ``notices`` tell a user what else there is to know, once each."""

    files: list[FileChange]
    folders: list[str]
    notices: list[str]


class SnapshotLimits(msgspec.Struct, frozen=True, kw_only=True):
    """``file`` is the most bytes of a file that is covered, ``total`` of all copies that are made, ``files`` how many are
    covered. ``recheck_s``: seconds after which all files are looked at, whatever the system says was touched.
    """

    file: int = 32 << 20
    total: int = 512 << 20
    files: int = 200_000
    recheck_s: float = 60.0


class BlobStore(Protocol):
    """Where contents are kept. Any thread may call it."""

    def put_blobs(self, blobs: Sequence[bytes]) -> list[str]: ...

    def blob(self, sha256: str) -> bytes: ...


class Snapshotter(Protocol):
    """Knows the files below a root. One look runs at a time; others wait.

    Looks raise ``WorkspaceError`` if the root is not there or its host cannot be reached, and what the store raises. One
    that failed or was cancelled has done no harm: the next one makes up for it.
    """

    @property
    def umask(self) -> int:
        """The permission bits that new folders do not get; known from the first look on."""
        ...

    async def take(self) -> list[str]:
        """Know all files as they are now, their contents in the store; returns what a user should be told."""
        ...

    async def changes(self) -> WorkspaceChanges:
        """What differs from the last ``take`` or ``changes``; from now on that counts as known."""
        ...

    def acknowledge(self, path: str, state: FileSnapshot | None, /) -> None:
        """A file, relative to the root, that Newel itself wrote or removed and has accounted for: as long as it is
        like that, it is no change.
        """
        ...

    async def export_index(self, *, whole: bool) -> bytes:
        """What the last look knew of all files, as ``snapshot_index`` packs it, or what of that became another since this was
        last asked: nothing if nothing did. It is ``whole`` that must be asked for first.
        """
        ...

    async def modified_since(self, since_ns: int, /) -> list[str]:
        """The covered files that were written, or given other permission bits, since a moment on this machine's clock."""
        ...

    def close(self) -> None:
        """Keep what is known for the next process, and let go. May block for as long as that takes."""
        ...
