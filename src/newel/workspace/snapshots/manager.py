"""What a command changed, whatever it was: the project's files known before it and looked at after it.

    snapshots = Snapshots(LocalFiles(root), ledger, index=folder / "files.index")
    await snapshots.take()
    await workspace.run(command)
    for file in (await snapshots.changes()).files: …

Every covered file's content is in the store before a command runs, so that it can be restored to the byte without
anybody's help: git's own objects may be gone when they are needed. A file is read again only if its signature (times,
size, number, permission bits) is another. On Linux the system says where to look; elsewhere, and on a host, all signatures are
compared.
Nothing here writes into the project or into its git repository.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from newel.agent.errors import WorkspaceError
from newel.workspace.snapshots.index import load, packed, packed_some, save
from newel.workspace.snapshots.port import (
    BlobStore,
    FileChange,
    SnapshotLimits,
    SnapshotSource,
    Stopped,
    WorkspaceChanges,
)
from newel.workspace.snapshots.scan import DirectoryVisit, Scan
from newel.workspace.snapshots.state import ScanState
from newel.workspace.snapshots.touched import touched
from newel.workspace.snapshots.tree import FileSnapshot, FolderState

_EXAMPLES: Final = 5
_UNHEARD: Final = (
    "Git does not answer here, so .gitignore is not honoured. Only well-known build folders are left out."
)


class SnapshotManager:
    """Knows the files of a directory, wherever ``source`` has them. One look runs at a time; others wait.

    ``blobs`` is where contents go. ``index``, a file beside that store, remembers which file has which content until
    the next process; it must be deleted when contents are.
    """

    def __init__(
        self,
        source: SnapshotSource,
        blobs: BlobStore,
        *,
        limits: SnapshotLimits | None = None,
        index: Path | None = None,
    ) -> None:
        self._source = source
        self._project = ScanState(source, blobs, limits or SnapshotLimits())
        self._index = index
        self._kept = 0
        self._first = True
        self._whole = True
        self._recheck_at = 0.0
        self._owed = False
        self._noted: dict[str, FileSnapshot | None] = {}
        self._told: set[str] = set()
        self._turn = anyio.Lock(fast_acquire=True)
        self._working = threading.Lock()

    @property
    def umask(self) -> int:
        """See ``Snapshotter``."""
        return self._project.umask

    async def take(self) -> list[str]:
        """Know all files as they are now; returns what a user should be told. The first time copies them.

        Raises ``WorkspaceError`` if the root is not there, and what the store raises. A call that failed or was
        cancelled has done no harm: the next one makes up for it.
        """
        async with self._turn:
            if not self._is_quiet(report=self._owed):
                # A cancelled `changes` is made up for by the next one.
                await self._in_thread(report=self._owed)
            return self._notices()

    async def changes(self) -> WorkspaceChanges:
        """What differs from the last ``take`` or ``changes``; from now on that counts as known. Raises as ``take``."""
        self._owed = True
        async with self._turn:
            if not self._is_quiet(report=True):
                await self._in_thread(report=True)
            project = self._project
            files = [
                FileChange(path, before, after)
                for path, before in sorted(project.changed.items())
                if before != (after := project.tree.state(path))
            ]
            folders = sorted(path for path in project.new_folders if path in project.tree.folders)
            self._owed = False
            project.changed.clear()
            project.new_folders.clear()
            return WorkspaceChanges(files, folders, self._notices())

    def note(self, path: str, state: FileSnapshot | None) -> None:
        """A file, relative to the root, that Newel itself wrote or removed and has accounted for: as long as it is
        like that, it is no change.
        """
        self._noted[path] = state

    async def known(self, *, whole: bool) -> bytes:
        """See ``Snapshotter``."""
        async with self._turn:
            if not whole and not self._project.tree.news:
                return b""
            return await anyio.to_thread.run_sync(self._known, whole)

    def _known(self, whole: bool) -> bytes:
        project = self._project
        with self._working:
            news, project.tree.news = project.tree.news, set()
            if whole or news is None:
                return packed(self._source.root, project.tree, project.fresh)
            return packed_some(self._source.root, project.tree, news)

    async def touched(self, since_ns: int) -> list[str]:
        """See ``Snapshotter``."""
        async with self._turn:
            return await self._source.within(partial(self._touched, since_ns))

    def _touched(self, since_ns: int) -> list[str]:
        with self._working:
            self._project.umask = self._source.umask()
            return touched(self._source, since_ns)

    def close(self) -> None:
        """Keep the index, and let the system forget what was watched. Blocks for as long as that takes."""
        self._source.stop()
        with self._working:
            self._save()
            self._source.close()
            self._whole = True

    def _is_quiet(self, *, report: bool) -> bool:
        """Whether a look would find nothing new, by all that is known without one. Far quicker than a thread."""
        if not self._working.acquire(blocking=False):
            return False
        try:
            project = self._project
            return (
                not (self._first or self._whole or self._noted or self._is_due(report))
                and not (project.fresh or project.linked or project.rules_changed)
                and self._source.is_quiet()
            )
        finally:
            self._working.release()

    def _is_due(self, report: bool) -> bool:
        """Whether it is time to look at everything; after a command only: what it did in a way that nobody is told of is
        then told as a command's, not lost.
        """
        return report and time.monotonic() >= self._recheck_at

    async def _in_thread(self, *, report: bool) -> None:
        stop = threading.Event()
        try:
            await self._source.within(partial(self._run, report, stop))
        finally:
            stop.set()

    def _run(self, report: bool, stop: threading.Event) -> None:
        with self._working, contextlib.suppress(Stopped):
            if not stop.is_set():
                self._look(report, stop)

    def _look(self, report: bool, stop: threading.Event) -> None:
        project = self._project
        noted, self._noted = self._noted, {}
        everywhere, self._whole = self._whole, True  # unless this look comes to its end
        again = self._first or self._is_due(report) or project.rules_changed
        try:
            visits = self._visits(everywhere=everywhere, again=again)
            project.rules_changed = False
            self._source.rules.forget()
            Scan(project, report=report, again=again, noted=noted, stopped=stop.is_set).run(visits)
        except BaseException as error:
            self._noted = noted | self._noted
            project.rules_changed |= again
            if isinstance(error, OSError):
                raise WorkspaceError(
                    f"Cannot look at the files in {self._source.root}: {error.strerror}."
                ) from error
            raise
        if again:
            self._recheck_at = time.monotonic() + project.limits.recheck_s
        self._whole = False
        if self._source.rules.unheard:
            project.tell(_UNHEARD)
        if self._first:
            self._first = False
            project.remembered = {}
            if project.ignored:
                project.tell(_left_out(sorted(project.ignored)))
            self._save()
        project.ignored.clear()

    def _visits(self, *, everywhere: bool, again: bool) -> list[DirectoryVisit]:
        project, source = self._project, self._source
        if self._first and not project.tree.folders:
            project.umask = source.umask()
            project.tree.folders[""] = FolderState(source.rules.repository_of_root())
            project.remembered = (load(self._index, source.root) if self._index else None) or {}
        touched = source.touched(project.linked, everywhere=everywhere)
        if touched is None or again:
            return [DirectoryVisit("", None, self._first)]
        return [DirectoryVisit(folder, names, absorb=False) for folder, names in touched.items()]

    def _save(self) -> None:
        project = self._project
        if self._index is not None and self._kept != project.spent and not self._first:
            self._kept = project.spent
            with contextlib.suppress(WorkspaceError):  # the next process reads the files again
                save(self._index, self._source.root, project.tree, project.fresh)

    def _notices(self) -> list[str]:
        project = self._project
        told = [words for words in project.notices if words not in self._told]
        self._told.update(told)
        if project.untold:
            told.append(f"Of {project.untold:,} more files, links or folders, too, changes cannot be undone.")
        project.notices.clear()
        project.untold = 0
        return told


def _left_out(names: Sequence[str]) -> str:
    some = ", ".join(names[:_EXAMPLES])
    more = f" and {len(names) - _EXAMPLES} more" if len(names) > _EXAMPLES else ""
    return f"Not covered, as it is ignored or can be made anew: {some}{more}. Changes there cannot be undone."
