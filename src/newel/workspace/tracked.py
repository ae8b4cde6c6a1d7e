"""What tells which files a command changed: the port, whatever host the files are on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from newel.workspace.port import FileNode, Workspace
from newel.workspace.snapshots.port import BlobStore, SnapshotLimits, Snapshotter

if TYPE_CHECKING:
    from newel.workspace.mirror.mirror import Mirror, MirrorLimits


class TrackedWorkspace(Workspace, Protocol):
    """A workspace right on its host, whose files can be watched."""

    async def look(self, path: str, /) -> FileNode | None:
        """What has this absolute path itself, a link not followed; None if nothing has."""
        ...

    async def become(self, path: str, thing: FileNode | None, /, *, expect: FileNode | None) -> None:
        """Make a link, a folder or a named pipe at an absolute path, or change or remove it (None). Of a regular file only
        the mode is changed: both are one then. A folder is removed if it is empty. Where something else is there by now,
        ``StaleFile`` is raised and nothing changes; no link on the way is followed.
        """
        ...

    def at(self, folder: str, /) -> TrackedWorkspace:
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
        blobs: BlobStore,
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
