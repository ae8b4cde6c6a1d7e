"""Detects which files a command changed: the project is scanned before the command and after it.

    snapshots = SnapshotManager(LocalSnapshotSource(root), ledger, index=folder / "files.index")
    await snapshots.take()
    await workspace.run(command)
    for file in (await snapshots.changes()).files: …

Before a command runs, the content of every covered file is in the store, so that it can be restored to the byte even if
Git's own objects are lost. A file is read again only if its signature (times, size, inode, mode) differs. On Linux the
kernel reports where to look; elsewhere, and on a host, all signatures are compared. Nothing here writes into the project
or its Git repository.

How much one scan covers depends on the phase:

             a scan completes               a scan starts, or close()
    NEW ───────────────────────▶ CURRENT ────────────────────────────▶ STALE
     ▲ │ a scan fails               ▲                                    │ ▲ │ a scan fails
     └─┘                            └──────────── a scan completes ──────┘ └─┘

    phase      directories that are scanned               excluded files
    NEW        all; the findings are not new              classified for the first time
    CURRENT    those that the source reports as touched   as before
    STALE      all                                        as before

A *recheck* scans all directories and classifies excluded files again, in any phase: after a change of ``.gitignore``,
and every ``recheck_s`` seconds, for changes that the kernel does not report.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import WorkspaceError
from newel.storage.loading import no_collection
from newel.workspace.snapshots.index import SavedTree, load, pack_all, pack_some, save
from newel.workspace.snapshots.port import (
    BlobStore,
    FileChange,
    ScanCancelled,
    SnapshotLimits,
    SnapshotSource,
    WorkspaceChanges,
)
from newel.workspace.snapshots.rule_history import CLOCK_LAG_NS
from newel.workspace.snapshots.scan import DirectoryVisit, Scan
from newel.workspace.snapshots.secret_files import SecretTests
from newel.workspace.snapshots.state import ScanState, TreeUpdate
from newel.workspace.snapshots.tree import (
    ExclusionReason,
    FileSnapshot,
    FolderState,
    changed_at_ns,
    join,
    split,
)
from newel.workspace.snapshots.uncovered import FOREVER, UncoveredChanges

_MAX_EXAMPLES: Final = 5
_GIT_FAILED_MESSAGE: Final = "Git did not answer, so .gitignore is not honoured. Only well-known build directories are excluded, and what it ignored before."


class _Phase(Enum):
    NEW = "no scan has completed"
    CURRENT = "the tree is as the last scan found it"
    STALE = "the last scan did not complete, or the watches are closed"


class SnapshotManager:
    """Tracks the files that ``source`` provides. Scans run one at a time; others wait.

    ``blobs`` stores contents, those of files with ``secrets`` only once they have changed. ``index``, a file beside that store, records
    which file has which content for the next process; it must be deleted when contents are.

    Scans raise ``WorkspaceError`` if the root does not exist or its host cannot be reached, and what the store raises. After
    a failed or cancelled scan the next one reports the same changes.
    """

    def __init__(
        self,
        source: SnapshotSource,
        blobs: BlobStore,
        *,
        limits: SnapshotLimits | None = None,
        index: Path | None = None,
        secrets: SecretTests | None = None,
    ) -> None:
        self._source = source
        self._state = ScanState(source, blobs, limits or SnapshotLimits(), secrets or SecretTests())
        self._index = index
        self._indexed_bytes = 0
        """``ScanState.copied`` when the index was last saved."""
        self._phase = _Phase.NEW
        self._recheck_at = 0.0
        self._is_report_due = False
        """``changes`` was called and has not returned them yet: until then no scan may absorb a change."""
        self._acknowledged: dict[str, FileSnapshot | None] = {}
        self._early: threading.Thread | None = None
        self._is_closing = False
        # Two locks, as a cancelled caller leaves a thread behind that scans on until it notices.
        self._caller_lock = anyio.Lock(fast_acquire=True)
        self._scan_lock = threading.Lock()

    @property
    def umask(self) -> int:
        """The permission bits that new folders do not get; known from the first scan on."""
        return self._state.umask

    def take_early(self) -> None:
        """Begin the scan of the first ``take``, which will wait for it, in a thread; only for a source that does not need the event loop.
        If it fails, ``take`` scans again.
        """
        if self._phase is _Phase.NEW and self._early is None:
            self._early = threading.Thread(target=self._scan_early, name="first scan", daemon=True)
            self._early.start()

    def _scan_early(self) -> None:
        def check_stopped() -> None:
            if self._is_closing:
                raise ScanCancelled

        # Whatever fails, fails again in `take`.
        with self._scan_lock, contextlib.suppress(Exception):
            if self._phase is _Phase.NEW:
                self._scan(check_stopped, {}, report=False, everywhere=False)

    async def take(self) -> list[str]:
        """Take a snapshot of all files, with their contents in the store; returns notices for the user. The first time copies
        all files.
        """
        async with self._caller_lock:
            # If `changes` was cancelled, the next call of it returns what it would have.
            await self._update(report=self._is_report_due)
            return self._state.notices.drain()

    async def changes(self) -> WorkspaceChanges:
        """The changes since the last ``take`` or ``changes``, and a new snapshot."""
        self._is_report_due = True
        async with self._caller_lock:
            await self._update(report=True)
            return self._report()

    async def last_changes(self, since_ns: int, until_ns: int = FOREVER) -> WorkspaceChanges:
        """As ``changes`` at the end of a run, which began at a moment on this machine's clock: every file is looked at, whatever
        the system reports, and what changed among the files that are not covered, until another moment. Ignore rules are from now
        on as they are now.
        """
        self._is_report_due = True
        async with self._caller_lock:
            await self._update(report=True, everywhere=True)
            uncovered = await self._source.run_in_thread(partial(self._find_uncovered, since_ns, until_ns))
            report = self._report()
            self._exclude_unstored()
            notices = [*report.notices, *self._state.notices.drain()]
            return msgspec.structs.replace(report, notices=notices, uncovered=uncovered)

    def _exclude_unstored(self) -> None:
        """The run is over: a later change of a file whose content is not stored could not be undone."""
        with self._scan_lock:
            update = TreeUpdate(self._state, {}, report=False)
            for path in sorted(self._state.unstored):
                update.exclude(path, ExclusionReason.ROOM)

    def _find_uncovered(self, since_ns: int, until_ns: int) -> UncoveredChanges:
        state, source = self._state, self._source
        with self._scan_lock:
            offset = source.clock_offset_ns()
            state.rule_history.begin(time.time_ns() + offset)
            excluded = [
                join(path, name) for path, folder in state.tree.folders.items() for name in folder.excluded
            ]
            since_ns += offset - CLOCK_LAG_NS
            found = source.uncovered({*state.uncovered, *excluded}, since_ns, until_ns + offset)
            deleted = [path for path in sorted(state.ignored_deleted) if not state.tree.has(path)]
            state.ignored_deleted.clear()
            return msgspec.structs.replace(found, deleted=deleted)

    def _report(self) -> WorkspaceChanges:
        state = self._state
        files = [
            FileChange(path, before, after)
            for path, before in sorted(state.changed.items())
            if before != (after := state.tree.state(path))
        ]
        folders = sorted(path for path in state.new_folders if path in state.tree.folders)
        self._is_report_due = False
        state.changed.clear()
        state.new_folders.clear()
        return WorkspaceChanges(files, folders, self._state.notices.drain())

    def acknowledge(self, path: str, state: FileSnapshot | None) -> None:
        """Do not report that a file, relative to the root, is in this state: Newel itself wrote or removed it."""
        self._acknowledged[path] = state

    async def export_index(self, *, whole: bool) -> bytearray:
        """The last snapshot in the format of ``snapshots.index``: ``whole``, which must come first, or only what changed since
        the last export; empty if nothing did.
        """
        async with self._caller_lock:
            if not whole and not self._state.tree.changed_paths:
                return bytearray()
            return await anyio.to_thread.run_sync(self._export_index, whole)

    def _export_index(self, whole: bool) -> bytearray:
        state, root = self._state, self._source.root
        tree = state.tree
        with self._scan_lock:
            changed, tree.changed_paths = tree.changed_paths, set()
            if whole or changed is None:
                return pack_all(root, tree, state.unreliable, held=state.held, is_full=state.is_full)
            return pack_some(root, tree, changed, held=state.held, is_full=state.is_full)

    async def resume(self, saved: SavedTree, since_ns: int, until_ns: int = FOREVER) -> WorkspaceChanges:
        """``last_changes`` of a run whose process is gone: compared with the tree that it saved last. To be called first."""

        def restore() -> None:
            with self._scan_lock:
                self._begin(since_ns)
                self._state.resume(saved)
                self._phase = _Phase.STALE

        async with self._caller_lock:
            await self._source.run_in_thread(restore)
        return await self.last_changes(since_ns, until_ns)

    async def changed_by(self, until_ns: int, paths: Iterable[str]) -> list[str]:
        """The files of which the last scan found that they changed by a moment on this machine's clock at the latest. Of a file that
        is gone, the time of the directory that is left counts.
        """
        return await self._source.run_in_thread(partial(self._changed_by, until_ns, list(paths)))

    def _changed_by(self, until_ns: int, paths: Sequence[str]) -> list[str]:
        with self._scan_lock:
            until_ns += self._source.clock_offset_ns()
            return [path for path in paths if 0 < self._changed_at(path) <= until_ns]

    def _changed_at(self, path: str) -> int:
        tree, source = self._state.tree, self._source
        record = tree.record(path)
        if record is not None:
            return changed_at_ns(record)
        folder = split(path)[0]
        while folder not in tree.folders:
            folder = split(folder)[0]
        return source.changed_at(f"{source.root}/{folder}")

    def close(self) -> None:
        """Save the index and release the watches. May block while a scan notices that it is to stop."""
        self._source.cancel()
        if self._early is not None:
            self._is_closing = True
            self._early.join()
            self._is_closing = False
        with self._scan_lock:
            self._save_index()
            self._source.close()
            if self._phase is _Phase.CURRENT:
                self._phase = _Phase.STALE

    # -- scanning -----------------------------------------------------------------------------------

    async def _update(self, *, report: bool, everywhere: bool = False) -> None:
        if not everywhere and self._is_up_to_date(report=report):
            return
        stop = threading.Event()

        def check_stopped() -> None:
            if stop.is_set():
                raise ScanCancelled

        def scan() -> None:
            with self._scan_lock, contextlib.suppress(ScanCancelled):
                check_stopped()
                acknowledged, self._acknowledged = self._acknowledged, {}
                try:
                    self._scan(check_stopped, acknowledged, report=report, everywhere=everywhere)
                except BaseException:
                    # A later state of the same file counts.
                    self._acknowledged = acknowledged | self._acknowledged
                    raise

        try:
            await self._source.run_in_thread(scan)
        finally:
            stop.set()

    def _is_up_to_date(self, *, report: bool) -> bool:
        """Whether a scan would find nothing. Much faster than starting a thread for one."""
        if not self._scan_lock.acquire(blocking=False):
            return False  # a cancelled caller's scan is not over yet: wait for it in a thread, not on the event loop
        try:
            state = self._state
            return (
                self._phase is _Phase.CURRENT
                and not (self._acknowledged or self._is_recheck_due(report=report))
                and not (state.unsettled or state.linked or state.needs_recheck)
                and self._source.is_quiet()
            )
        finally:
            self._scan_lock.release()

    def _is_recheck_due(self, *, report: bool) -> bool:
        """Only where changes are reported: one that the kernel missed is then credited to the command, not lost."""
        return report and time.monotonic() >= self._recheck_at

    def _scan(
        self,
        check_stopped: Callable[[], None],
        acknowledged: Mapping[str, FileSnapshot | None],
        *,
        report: bool,
        everywhere: bool,
    ) -> None:
        state, source, phase = self._state, self._source, self._phase
        recheck = phase is _Phase.NEW or state.needs_recheck or self._is_recheck_due(report=report)
        if phase is _Phase.CURRENT:
            # `touched` reports each change once: if this scan fails, only a scan of everything finds them again.
            self._phase = _Phase.STALE
        try:
            visits = self._plan(phase, everywhere=everywhere or recheck)
            state.needs_recheck = False
            source.rules.refresh()
            scan = Scan(TreeUpdate(state, acknowledged, report=report), check_stopped, recheck=recheck)
            with no_collection() if phase is _Phase.NEW else contextlib.nullcontext():
                scan.run(visits)
        except BaseException as error:
            state.needs_recheck |= recheck
            if isinstance(error, OSError):
                raise WorkspaceError(f"Cannot scan the files in {source.root}: {error.strerror}.") from error
            raise
        self._phase = _Phase.CURRENT
        if recheck:
            self._recheck_at = time.monotonic() + state.limits.recheck_s
        if source.rules.failed:
            state.notices.add(_GIT_FAILED_MESSAGE)
        if phase is _Phase.NEW:
            state.indexed = {}
            if state.ignored:
                state.notices.add(_describe_excluded(sorted(state.ignored)))
            self._save_index()
        state.ignored.clear()

    def _plan(self, phase: _Phase, *, everywhere: bool) -> list[DirectoryVisit]:
        """The directories to scan first; a new one that is found in them is scanned, too."""
        state, source = self._state, self._source
        is_new = phase is _Phase.NEW
        if is_new and not state.tree.folders:
            self._begin(time.time_ns())
            state.indexed = load(self._index, source.root).records if self._index else {}
        touched = source.touched(state.linked, everywhere=phase is not _Phase.CURRENT)
        if touched is None or everywhere:
            return [DirectoryVisit("", None, absorb=is_new)]
        return [DirectoryVisit(folder, names, absorb=False) for folder, names in touched.items()]

    def _begin(self, now_ns: int) -> None:
        state, source = self._state, self._source
        state.umask = source.umask()
        state.rule_history.begin(now_ns + source.clock_offset_ns())
        state.tree.folders[""] = FolderState(source.rules.repository_of_root())

    def _save_index(self) -> None:
        state = self._state
        if self._index and self._phase is not _Phase.NEW and self._indexed_bytes != state.copied:
            self._indexed_bytes = state.copied
            with contextlib.suppress(WorkspaceError):  # then the next process reads the files again
                save(self._index, self._source.root, state.tree, state.unreliable, held=state.held)


def _describe_excluded(names: Sequence[str]) -> str:
    examples = ", ".join(names[:_MAX_EXAMPLES])
    more = f" and {len(names) - _MAX_EXAMPLES} more" if len(names) > _MAX_EXAMPLES else ""
    return f"Not covered (ignored by Git, or build output): {examples}{more}. Changes there cannot be undone."
