"""Records in the ledger what agents do to the files of a project: their state before each operation, and after it.

    RecordingWorkspace  --track(operation)-->  ChangeRecorder  --put(changes)-->  ChangeSink  -->  Ledger
                                                     |
                                                 EffectLog        what is pending, for the process after a crash

Commands may run side by side, of several agents. Each change is recorded once. Where commands overlap, changes up to the start
of the second one count as the first one's, and those found at the end of a command as that command's. User edits made while a
command runs are attributed to the command.
"""

from __future__ import annotations

import math
import stat
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from newel.agent.errors import NewelError, StaleFile
from newel.agent.messages import now
from newel.permissions.rules import RuleSet
from newel.review.checkpoints import new_checkpoint
from newel.review.folders import grown, is_folder, left_folders, missing, unchanged_parents, without_implied
from newel.review.model.file_lines import content_of, text_hash
from newel.review.paths import OutsideProject, check_name, checked_path
from newel.review.project import ProjectReview
from newel.review.store.ledger import Checkpoint, FileVersion, Ledger
from newel.review.store.schema import LedgerBusy
from newel.review.tracking.applied_sink import SHOWN, AppliedSink
from newel.review.tracking.between_commands import ChangesBetweenCommands
from newel.review.tracking.change_sink import ChangeSink, RunEnd
from newel.review.tracking.effect_log import INDEX, EffectLog, PendingEffect, effect_of
from newel.review.tracking.effects import (
    KILLED,
    RECORDS_DELETED,
    SCAN_TIMED_OUT,
    TrackedOperation,
    TrackedRun,
    retry,
)
from newel.review.tracking.file_states import FileTooLarge, changes_of_killed, read_state, state_after_write
from newel.review.tracking.secret_tests import secret_tests
from newel.text.format import join_names
from newel.workspace.port import ABSENT
from newel.workspace.snapshots.port import FileChange, SnapshotLimits, WorkspaceChanges
from newel.workspace.snapshots.secret_files import SecretTests
from newel.workspace.snapshots.tree import FileSnapshot
from newel.workspace.tracked import TrackedWorkspace, snapshots_of

if TYPE_CHECKING:
    from newel.workspace.snapshots.manager import SnapshotManager

IN_MEMORY_BYTES: Final = 64 << 20
"""Limit of the copies of files that a ledger in memory keeps for commands."""

SCAN_TIMEOUT_S: Final = 5.0
"""Limit for finding the changes of a stopped command: the user is waiting, and its host may not respond."""


class ChangeRecorder:
    """Tracks the files of ``workspace`` and records their changes in the ledger of ``project`` through ``sink``. Use ``open``.
    Raises ``LedgerError`` and what the workspace raises.
    """

    def __init__(
        self,
        workspace: TrackedWorkspace,
        project: ProjectReview,
        sink: ChangeSink,
        make_snapshots: Callable[[], SnapshotManager],
        log: EffectLog,
    ) -> None:
        self.project = project
        self.secrets = SecretTests()
        self.scan_timeout = SCAN_TIMEOUT_S
        self.notices: list[str] = []
        """Messages for the user that come with the next operation."""
        self._workspace = workspace
        self._sink = sink
        self._ledger = project.ledger
        self._log = log
        self._make_snapshots = make_snapshots
        self._has_snapshot = False
        self._running: list[TrackedOperation] = []
        self._ended: list[TrackedOperation] = []
        """Commands whose changes are not recorded yet."""
        self._looked_at = ""
        """When all changes until then had been recorded."""
        self._between = ChangesBetweenCommands(log)
        self._found: list[tuple[TrackedOperation, WorkspaceChanges]] = []
        """Changes that a scan reported, and will not report again, but that could not be recorded yet."""
        self._lock = anyio.Lock(fast_acquire=True)
        """Held during a scan and during a write, so that no scan takes a write for a command's change."""

    @classmethod
    async def open(
        cls,
        workspace: TrackedWorkspace,
        folder: Path | None,
        *,
        left_out: Iterable[str] = (),
        rules: RuleSet | None = None,
    ) -> ChangeRecorder:
        """The recorder of a workspace's root, with its ledger in ``folder`` (None: in memory). Completes what killed processes
        left pending. ``left_out`` are absolute paths that are not covered. Files that ``rules``, or those of the project, deny to
        read hold secrets.
        """
        secrets = await secret_tests(workspace, rules or RuleSet())
        ledger = await anyio.to_thread.run_sync(Ledger.open, folder)
        log = EffectLog(ledger, folder)
        project = ProjectReview(ledger, workspace)
        project.left_out = log.load_left_out()
        limits = None if folder else SnapshotLimits(total=IN_MEMORY_BYTES)
        source = partial(snapshots_of, workspace, ledger, secrets=secrets, left_out=left_out)
        snapshots = partial(source, limits=limits, index=folder / INDEX if folder else None)
        recorder = cls(workspace, project, AppliedSink(ledger), snapshots, log)
        recorder.secrets = secrets
        try:
            await project.recover()
            for effect in log.recover(workspace.root):
                await recorder.recover(effect)
        except BaseException:
            recorder.close()
            raise
        return recorder

    def close(self) -> None:
        """Stop tracking, and close the ledger."""
        self.stop()
        self._ledger.close()

    @cached_property
    def _snapshots(self) -> SnapshotManager:
        """Made for the first command: a run that only writes needs none of it."""
        return self._make_snapshots()

    def stop(self) -> None:
        if "_snapshots" in vars(self):
            self._snapshots.close()
        self._log.close()

    # -- operations ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def track(self, operation: TrackedOperation) -> AsyncGenerator[None]:
        """Record what the body does, also if it fails or is cancelled. Failing to record never fails the body: see
        ``operation.error`` and ``operation.notices``, after entering and after leaving.

        A write holds the lock while the body runs; a command only at its start and its end. If recording is cut short, the
        next scan makes up for a command, and the next process for a write.
        """
        path = operation.path
        async with nullcontext() if path is None else self._lock:
            begin = self._begin_command if path is None else partial(self._begin_write, path)
            try:
                await retry(partial(begin, operation))
            except (NewelError, OSError) as error:
                operation.error = error
            timeout = math.inf
            try:
                yield
            except StaleFile:
                operation.is_refused = True
                raise
            except anyio.get_cancelled_exc_class():
                timeout = self.scan_timeout
                raise
            finally:
                with anyio.CancelScope(shield=True):
                    await self._end(operation, timeout)

    def scan_early(self) -> None:
        """Begin to do what the first command of this process would have to wait for. The workspace must be on this machine."""
        self._snapshots.take_early()

    async def look(self) -> Sequence[str]:
        """Record what processes in the background have changed until now; returns messages for the user. Raises as ``finish``."""
        with anyio.move_on_after(self.scan_timeout):
            async with self._lock:
                if self._between.run is not None and not self._running:
                    await self._scan()
        return self.take_notices()

    def take_notices(self) -> list[str]:
        """The messages so far, the oldest first; each is for the user, once."""
        taken = self.notices[:]
        del self.notices[:]  # the list stays: what deletes old records in the background appends to it
        return taken

    async def finish(self, run: TrackedRun) -> RunEnd:
        """At the end of a run with commands: record what they changed without its being noticed, under another name of a file
        for example, and say what they changed that is not covered. Raises ``LedgerError`` and what the workspace raises.
        """
        operation = TrackedOperation(run, None)
        uncovered: list[str] = []
        background: Sequence[str] = ()
        with anyio.move_on_after(self.scan_timeout) as scope:
            async with self._lock:
                await self._at_once(partial(self._log.end_run, run.effect_id))
                run.effect_id = ""
                if self._running:
                    return RunEnd([], [], ())  # a command of another run: at the end of that one
                await self._scan()  # what the user has changed since the last command is not the run's
                changes = await self._snapshots.last_changes(run.commands_began_ns)
                await self._record_changes(operation, changes)
                uncovered = self._sink.describe_uncovered(changes.uncovered)
                processes = await self._workspace.background()
                if processes == [] and self._between.run is run:
                    await self._scan()  # those that the run has left have ended, perhaps since the last scan
                background = processes or ()
                between = run.continued_by(background[0]) if background else None
                await self._at_once(partial(self._between.belong_to, between))
                self._looked_at = now()
        if scope.cancelled_caught:
            operation.notices.append(SCAN_TIMED_OUT)
        return RunEnd(operation.notices, uncovered, background)

    async def _begin_command(self, operation: TrackedOperation) -> None:
        async with self._lock:
            operation.started_at = now()
            await self._scan()
            operation.run.commands_began_ns = operation.run.commands_began_ns or time.time_ns()
            await self._save_known()
            await self._at_once(partial(self._log_effect, operation))
            self._running.append(operation)
            operation.extent = self._ledger.extent()
        operation.is_tracked = True

    async def _begin_write(self, path: str, operation: TrackedOperation) -> None:
        try:
            if operation.expect is None:
                await checked_path(self._workspace, path)
            else:
                check_name(self._workspace.root, path)
            operation.is_tracked = await anyio.to_thread.run_sync(self._log_known_write, operation, path)
            if operation.is_tracked:
                return
            if operation.expect != ABSENT:
                operation.before = await read_state(self._workspace, self._ledger, path)
            if operation.before is None:
                operation.folders = (await missing(self._workspace, [path]))[path]
        except OutsideProject:
            return
        except FileTooLarge as error:
            operation.notices = [str(error)]
            return
        await self._at_once(partial(self._log_effect, operation))
        operation.is_tracked = True

    def _log_known_write(self, operation: TrackedOperation, path: str) -> bool:
        """Log a write of a file that the ledger has the expected content of, so that it need not be read. Its mode is the one
        known last, until the write reports it.
        """
        digest = operation.expect
        with self._ledger.batch(flush=False):  # the blob must stay until the effect names it
            base = self._ledger.get(path).base
            content = content_of(base)
            if digest is None or content is None or stat.S_IFMT(content.mode):
                return False
            if not self._ledger.has_blob(digest):
                if text_hash(base) != f"sha256:{digest}":
                    return False
                self._ledger.put_blobs([content.data])
            operation.before = FileSnapshot(digest, content.mode)
            self._log_effect(operation)
        return True

    def _log_effect(self, operation: TrackedOperation) -> None:
        run = operation.run
        if operation.path is None and not run.effect_id:
            run.effect_id = self._log.begin_run(effect_of(operation, is_run=True))
        operation.effect_id = self._log.begin(effect_of(operation))

    async def _at_once(self, write: Callable[[], None]) -> None:
        """Make a small change of the effect log. It takes less time than a thread needs to start it, as nothing is flushed. Only if
        it has to wait for another thread or process, a thread waits.
        """
        try:
            with self._ledger.batch(flush=False, wait=False):
                write()
        except LedgerBusy:
            await anyio.to_thread.run_sync(write)

    async def _end(self, operation: TrackedOperation, timeout: float) -> None:  # noqa: ASYNC109 — for a part of it
        if not operation.is_tracked:
            return
        try:
            with anyio.move_on_after(timeout) as scope:
                if operation.path is None:
                    self._running.remove(operation)
                    self._ended.append(operation)
                    async with self._lock:
                        self._check_extent(operation)
                        # Before the scan: one that ends during it may have written behind it.
                        left = await self._workspace.background()
                        await retry(self._record_ended)
                        if left != []:
                            await self._at_once(partial(self._between.belong_to, operation.run))
                        self._looked_at = now()
                elif operation.is_refused:
                    await self._at_once(partial(self._log.end, operation.effect_id))
                else:
                    await retry(partial(self._record_write, operation, operation.path))
            if scope.cancelled_caught:
                operation.notices.append(SCAN_TIMED_OUT)
        except (NewelError, OSError) as error:
            operation.error = error
        operation.notices += self.take_notices()

    def _check_extent(self, operation: TrackedOperation) -> None:
        """Nothing but this process deletes records while it has the ledger open."""
        if operation.extent is not None and self._ledger.has_lost(operation.extent):
            operation.notices.append(RECORDS_DELETED)

    async def _scan(self) -> None:
        """Record all changes until now, so that what the next scan finds is new."""
        await self._record_ended()
        if self._running:
            await self._record_found(self._running[0])
        elif self._between.run is not None:
            await self._record_background(self._between.run)
        else:
            await self._take()
        self._looked_at = now()

    async def _record_background(self, run: TrackedRun) -> None:
        operation = TrackedOperation(run, None)
        operation.started_at = self._looked_at
        await self._record_found(operation)
        self.notices += operation.notices
        if self._between.is_over(await self._workspace.background()):
            await self._at_once(partial(self._between.belong_to, None))

    async def _take(self) -> None:
        left_out = await self._snapshots.take()
        if left_out or not self._has_snapshot:
            project = self.project
            project.left_out = [*project.left_out, *left_out] if self._has_snapshot else left_out
            await anyio.to_thread.run_sync(self._log.save_left_out, project.left_out)
        self._has_snapshot = True

    async def _save_known(self) -> None:
        """Save the states of the files for the next process. All changes until now are recorded."""
        if not self._log.is_kept:
            return
        with anyio.CancelScope(shield=True):  # the snapshot does not report the same states again
            if states := await self._snapshots.export_index(whole=self._log.wants_all):
                await anyio.to_thread.run_sync(self._log.save_known, states)

    async def _record_ended(self) -> None:
        while self._ended:
            await self._record_found(self._ended[0])
            await self._at_once(partial(self._log.end, self._ended[0].effect_id))
            del self._ended[0]

    async def _record_found(self, operation: TrackedOperation) -> None:
        await self._record_pending()
        await self._record_changes(operation, await self._snapshots.changes())

    async def _record_changes(self, operation: TrackedOperation, changes: WorkspaceChanges) -> None:
        operation.notices += map(self._sink.not_covered, changes.notices)
        self._found.append((operation, changes))
        await self._record_pending()

    async def _record_pending(self) -> None:
        with anyio.CancelScope(shield=True):
            while self._found:
                operation, changes = self._found[0]
                await self._record(operation, changes.files, changes.folders)
                del self._found[0]

    async def _record_write(self, operation: TrackedOperation, path: str) -> None:
        is_recorded = False
        try:
            after, blobs = await state_after_write(self._workspace, self._ledger, operation, path)
        except FileTooLarge as error:
            operation.notices.append(str(error))
        else:
            change = FileChange(path, operation.before, after)
            is_recorded = await self._record(operation, [change], operation.folders, blobs)
            if self._has_snapshot:
                self._snapshots.acknowledge(path, after)
        if not is_recorded:
            await self._at_once(partial(self._log.end, operation.effect_id))

    # -- after a crash ------------------------------------------------------------------------------

    async def recover(self, effect: PendingEffect) -> None:
        """Record what a killed process did."""
        record = effect.record
        operation = TrackedOperation(
            TrackedRun(record.session, id=record.run, title=record.title), record.path
        )
        operation.started_at, operation.effect_id = record.began, effect.id
        found = await changes_of_killed(self._workspace, self._ledger, self._make_snapshots, effect)
        await self._record(operation, found.files, found.folders)
        await anyio.to_thread.run_sync(self._log.end, effect.id)
        for text in [*found.notices, *self._sink.describe_uncovered(found.uncovered)]:
            if (notice := KILLED.format(title=record.title, text=text)) not in self.notices:
                self.notices.append(notice)

    # -- recording ----------------------------------------------------------------------------------

    async def _record(
        self,
        operation: TrackedOperation,
        changes: Sequence[FileChange],
        folders: Sequence[str] = (),
        blobs: Sequence[bytes] = (),
    ) -> bool:
        """Record those changes that are not recorded yet; returns whether there were any. ``blobs`` are contents that they name."""
        valid: list[FileChange] = []
        left_out: list[str] = []
        for change in changes:
            if change.before == change.after:
                continue
            try:
                check_name(self._workspace.root, change.path)
            except OutsideProject:
                left_out.append(change.path)
            else:
                valid.append(change)
        if left_out:
            names = join_names(left_out, shown=SHOWN)
            notice = f"Not recorded, as the name is not UTF-8: {names}."
            operation.notices.append(self._sink.not_covered(notice))
        if valid:
            valid = await self._without_implied(operation.run.checkpoint, valid)
        if not valid:
            return False
        new = await anyio.to_thread.run_sync(partial(self._sink.new, valid, since=operation.started_at))
        if not new:
            return False
        folders = await self._sink.new_folders(folders)
        prepared: list[Checkpoint] = []

        def prepare() -> None:
            prepared.append(self._prepare(operation, new, folders, blobs))

        operation.notices += await self._sink.put(operation.run.id, new, prepare)
        # Not before it is stored: an attempt that failed has left no checkpoint.
        operation.run.checkpoint = prepared[-1] if prepared else operation.run.checkpoint
        operation.changes += new
        return True

    def _prepare(
        self,
        operation: TrackedOperation,
        changes: Sequence[FileChange],
        folders: Sequence[str],
        blobs: Sequence[bytes],
    ) -> Checkpoint:
        """The part of a record that is about the run: its checkpoint, which is returned, and that a write is not pending any
        more.
        """
        self._ledger.put_blobs(blobs)
        run = operation.run
        checkpoint = self._ledger.checkpoint_of_run(run.id) or run.checkpoint
        if checkpoint is None:
            checkpoint = new_checkpoint(run.id, session=run.session, title=run.title, created=run.created)
        listed = {file.path for file in checkpoint.files}
        files = [
            FileVersion(path=change.path, blob=before.blob, mode=before.mode)
            for change in changes
            if change.path not in listed
            for before in [change.before or FileSnapshot("", 0)]
        ]
        if files:
            checkpoint = grown(checkpoint, files, folders)
            self._ledger.add_checkpoint(checkpoint)
        if operation.path is not None:
            self._log.end(operation.effect_id)
        return checkpoint

    async def _without_implied(
        self, checkpoint: Checkpoint | None, changes: Sequence[FileChange]
    ) -> list[FileChange]:
        """Without folders that other changes imply, and with folders that the run created and left empty."""
        left = await left_folders(self._workspace, changes, checkpoint)
        is_about_folders = any(is_folder(change.before) or is_folder(change.after) for change in changes)
        if not left and not is_about_folders and checkpoint is None:
            return list(changes)
        unchanged = await unchanged_parents(self._workspace, changes)
        umask = self._snapshots.umask

        def without() -> list[FileChange]:
            is_known = self._ledger.is_known
            return [
                *without_implied(changes, checkpoint, unchanged=unchanged, umask=umask, is_known=is_known),
                *(change for change in left if not is_known(change.path)),
            ]

        return await anyio.to_thread.run_sync(without)
