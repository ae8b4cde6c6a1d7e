"""What tells which files a command changed: the port, whatever host the files are on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from newel.workspace.port import Thing, Workspace
from newel.workspace.snapshot_tree import State

if TYPE_CHECKING:
    from newel.workspace.mirror import Mirror, MirrorLimits


class FileChange(msgspec.Struct, frozen=True):
    """``path`` is relative to the root, with ``/``; bytes that are not UTF-8 are in it as ``os.fsdecode`` puts them.
    None stands for no file.
    """

    path: str
    before: State | None
    after: State | None


class Changes(msgspec.Struct, frozen=True):
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


class Blobs(Protocol):
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

    async def changes(self) -> Changes:
        """What differs from the last ``take`` or ``changes``; from now on that counts as known."""
        ...

    def note(self, path: str, state: State | None, /) -> None:
        """A file, relative to the root, that Newel itself wrote or removed and has accounted for: as long as it is
        like that, it is no change.
        """
        ...

    async def known(self, *, whole: bool) -> bytes:
        """What the last look knew of all files, as ``snapshot_index`` packs it, or what of that became another since this was
        last asked: nothing if nothing did. It is ``whole`` that must be asked for first.
        """
        ...

    async def touched(self, since_ns: int, /) -> list[str]:
        """The covered files that were written, or given other permission bits, since a moment on this machine's clock."""
        ...

    def close(self) -> None:
        """Keep what is known for the next process, and let go. May block for as long as that takes."""
        ...


class WatchedWorkspace(Workspace, Protocol):
    """A workspace right on its host, whose files can be watched."""

    async def look(self, path: str, /) -> Thing | None:
        """What has this absolute path itself, a link not followed; None if nothing has."""
        ...

    async def become(self, path: str, thing: Thing | None, /, *, expect: Thing | None) -> None:
        """Make a link, a folder or a named pipe at an absolute path, or change or remove it (None). Of a regular file only
        the mode is changed: both are one then. A folder is removed if it is empty. Where something else is there by now,
        ``StaleFile`` is raised and nothing changes; no link on the way is followed.
        """
        ...

    def at(self, folder: str, /) -> WatchedWorkspace:
        """Another folder of the same host, seen likewise: an absolute path without links."""
        ...

    async def mirror(
        self, folder: Path, /, *, limits: MirrorLimits | None = None, left_out: Iterable[str] = ()
    ) -> Mirror:
        """A copy of the files below the root, on their host; empty until its first update. Of this machine, copies lie in
        ``folder``, elsewhere in the home of the host's user. ``left_out`` are absolute paths of this machine that are not copied,
        such as Newel's own folder.
        """
        ...

    async def ignored(self, folder: str, names: Sequence[str], /) -> set[str]:
        """Those names in a folder, relative to the root ("": the root), that git ignores; without git, what is known to
        be made anew.
        """
        ...

    async def files_by_git(self) -> list[str] | None:
        """The files below the root, relative to it, without those that git ignores; None where there is no git that knows
        the project.
        """
        ...

    def snapshots(
        self,
        blobs: Blobs,
        /,
        *,
        limits: SnapshotLimits | None = None,
        index: Path | None = None,
        left_out: Iterable[str] = (),
    ) -> Snapshotter:
        """Watch the files below the root. Contents go to ``blobs``; ``index``, a file beside that store, remembers which file
        has which content until the next process, and must be deleted when contents are. ``left_out`` are absolute paths
        of this machine that are not covered, such as where the store itself lies.
        """
        ...
