"""The port of a workspace whose changes by commands can be tracked, on any host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from newel.workspace.port import FileNode, Workspace

if TYPE_CHECKING:
    from newel.workspace.mirror.mirror import Mirror, MirrorLimits
    from newel.workspace.snapshots.manager import SnapshotManager
    from newel.workspace.snapshots.port import BlobStore, SnapshotLimits, SnapshotSource
    from newel.workspace.snapshots.secret_files import SecretTests


class TrackedWorkspace(Workspace, Protocol):
    """A workspace without layers above its host, whose files can be tracked."""

    async def lstat(self, path: str, /) -> FileNode | None:
        """The node at an absolute path, links not followed; None if there is none."""
        ...

    async def become(self, path: str, thing: FileNode | None, /, *, expect: FileNode | None) -> None:
        """Create a link, a folder or a named pipe at an absolute path, change it, or remove it (None). For a regular
        file only the mode is changed: both nodes are regular files then. A folder is removed only if it is empty.
        If another node is there by now, ``StaleFile`` is raised and nothing changes; no link in the path is
        followed.
        """
        ...

    def at(self, folder: str, /) -> TrackedWorkspace:
        """A workspace for another folder of the same host: an absolute path without links."""
        ...

    async def mirror(
        self, folder: Path, /, *, limits: MirrorLimits | None = None, left_out: Iterable[str] = ()
    ) -> Mirror:
        """A copy of the files below the root, on their host; empty until its first update. Local copies are in ``folder``, those
        on a host in the home of its user. ``left_out`` are absolute paths of this machine that are not copied, such as Newel's
        own folder.
        """
        ...

    async def ignored(self, folder: str, names: Sequence[str], /) -> set[str]:
        """The names in a folder, relative to the root ("" is the root), that git ignores; without git, build directories."""
        ...

    async def files_by_git(self) -> list[str] | None:
        """The files below the root, relative to it, without those that git ignores; None if there is no git repository."""
        ...

    async def background(self) -> Sequence[str] | None:
        """Describe the processes that earlier commands have left running here, and that still run; None if that is unknown."""
        ...

    def snapshot_source(self, blobs: BlobStore, /, *, left_out: Iterable[str] = ()) -> SnapshotSource:
        """The files below the root, for a ``SnapshotManager`` that stores contents in ``blobs``. ``left_out`` are absolute paths of
        this machine that are not covered, such as that of the store.
        """
        ...


def snapshots_of(
    workspace: TrackedWorkspace,
    blobs: BlobStore,
    *,
    limits: SnapshotLimits | None = None,
    index: Path | None = None,
    left_out: Iterable[str] = (),
    secrets: SecretTests | None = None,
) -> SnapshotManager:
    """Snapshots of a workspace's files; see ``SnapshotManager``. It is loaded here, as most runs start no command."""
    from newel.workspace.snapshots.manager import SnapshotManager

    source = workspace.snapshot_source(blobs, left_out=left_out)
    return SnapshotManager(source, blobs, limits=limits, index=index, secrets=secrets)
