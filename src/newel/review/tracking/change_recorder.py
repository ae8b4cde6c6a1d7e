"""The recorder of a project: what was before each effect of an agent, and what came of it, in the ledger.

Commands may run side by side, of several agents. A change is recorded once: where commands overlap, what changed until the
second one begins is the first one's, and what is found when one ends is that one's. What a person changes in a file while a
command runs cannot be told from the command's own doing.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import WorkspaceError
from newel.review.created_folders import grown, missing
from newel.review.implied import is_folder, left_behind, told_apart
from newel.review.model.file_lines import content_of, lines_of_state, spans_of, text_hash
from newel.review.model.file_review import (
    AppliedHunk,
    FileReview,
    Hunk,
    Layer,
    Lines,
    ReviewError,
    new_hunk_id,
    render,
)
from newel.review.model.rebase import rebased
from newel.review.paths import OutsideProject, check_name, checked_path
from newel.review.project import ProjectReview
from newel.review.retries import retried
from newel.review.save import LARGEST
from newel.review.store.garbage_collection import in_background
from newel.review.store.ledger import Checkpoint, FileVersion, Ledger
from newel.review.tracking.effects import TrackedOperation, TrackedRun
from newel.review.tracking.write_ahead_log import INDEX, KnownFiles, LogRecord, WriteAheadLog, states_before
from newel.workspace.snapshots.port import FileChange, SnapshotLimits, Snapshotter, WorkspaceChanges
from newel.workspace.snapshots.tree import EMPTY, FileSnapshot, is_kept, state_mode
from newel.workspace.tracked import TrackedWorkspace

CLOCK: Final = 20_000_000
"""Nanoseconds by which the clock of files may be behind."""

IN_MEMORY: Final = 64 << 20
"""Bytes of copies that a ledger in memory may take for commands."""

BATCH: Final = 200
"""Changes of files that are put down at once; other processes wait for so long."""


class FileTooLarge(ReviewError, code="too_large"):
    """A file has more than ``LARGEST`` bytes, and is left out."""


class ChangeSink(Protocol):
    """What a change of a file means to the ledger."""

    def not_covered(self, words: str) -> str:
        """What a person is told of something that is not covered, and why it is not."""
        ...

    async def new_folders(self, folders: Sequence[str]) -> Sequence[str]:
        """Those of some folders that come with the run, and go with the last file in them."""
        ...

    def new(self, changes: Sequence[FileChange], *, since: str) -> list[FileChange]:
        """Those that nobody has put down since a moment, in ISO 8601. Blocks."""
        ...

    async def put(self, run: str, changes: Sequence[FileChange]) -> list[str]:
        """Put changes down as a run's; returns what a person should know of it."""
        ...


class ChangeRecorder:
    """Watches the files of ``workspace``, and puts what happens to them into the ledger of ``project`` as ``meaning`` has it.
    Use ``open``. Raises ``LedgerError``, and what the workspace raises.
    """

    def __init__(
        self,
        workspace: TrackedWorkspace,
        project: ProjectReview,
        meaning: ChangeSink,
        snapshots: Snapshotter,
        notes: WriteAheadLog,
    ) -> None:
        self.project = project
        self._workspace = workspace
        self._meaning = meaning
        self._ledger = project.ledger
        self._notes = notes
        self._snapshots = snapshots
        self._is_taken = False
        self.untold: list[str] = []
        """What a person should know, to be told with the next effect."""
        self._running: list[TrackedOperation] = []
        self._ended: list[TrackedOperation] = []
        """Commands of which it is not put down yet what they did."""
        self._waiting: list[tuple[TrackedOperation, WorkspaceChanges]] = []
        """What was found and could not be put down yet: the disk of the ledger failed."""
        self._lock = anyio.Lock(fast_acquire=True)
        """Held while files are looked at, and while one is written: what is found then is no command's doing."""

    @classmethod
    async def open(
        cls, workspace: TrackedWorkspace, folder: Path | None, *, left_out: Iterable[str] = ()
    ) -> ChangeRecorder:
        """The recorder of a workspace's root, with its ledger in ``folder`` (None: in memory). What processes that were
        killed have left is brought to its end. ``left_out`` are folders, by their absolute paths, that are not covered.
        """
        ledger = await anyio.to_thread.run_sync(Ledger.open, folder)
        notes = WriteAheadLog(folder)
        project = ProjectReview(ledger, workspace)
        project.left_out = notes.left_out()
        index = folder / INDEX if folder else None
        limits = None if folder else SnapshotLimits(total=IN_MEMORY)
        snapshots = workspace.snapshots(ledger, limits=limits, index=index, left_out=left_out)
        recorder = cls(workspace, project, AppliedSink(ledger), snapshots, notes)
        try:
            await project.recover()
            await recorder.recover()
        except BaseException:
            recorder.close()
            raise
        in_background(ledger, recorder.untold.append)
        return recorder

    def close(self) -> None:
        """Close the ledger, too."""
        self.let_go()
        self._ledger.close()

    def let_go(self) -> None:
        """Watch no longer."""
        self._snapshots.close()
        self._notes.close()

    # -- effects ------------------------------------------------------------------------------------

    async def begin(self, run: TrackedRun, path: str | None) -> TrackedOperation:
        """Keep what is there before an effect. To be followed by ``end``, by the same task."""
        effect = TrackedOperation(run, path)
        if path is None:
            async with self._lock:
                await self._look()
                await self._keep_known()
                self._put_note(effect)
                self._running.append(effect)
            return effect
        await self._lock.acquire()
        try:
            await checked_path(self._workspace, path)
            effect.before = await self._state(path)
            folders = [] if effect.before else (await missing(self._workspace, [path]))[path]
            await self._remember(run, [FileChange(path, effect.before, None)], folders)
            self._put_note(effect)
        except OutsideProject:
            effect.is_left_out = True
        except FileTooLarge as error:
            effect.is_left_out = True
            effect.notices.append(str(error))
        except BaseException:
            self._lock.release()
            raise
        return effect

    async def end(self, effect: TrackedOperation) -> list[str]:
        """Record what came of an effect; returns what a person should know of it.

        Where that is cancelled it is made up for: of a command with the next look here, of a file by the next process.
        """
        if effect.path is None:
            self._running.remove(effect)
            self._ended.append(effect)
            async with self._lock:
                await retried(self._record_ended)
        else:
            try:
                if not effect.is_left_out:
                    await retried(partial(self._record_written, effect, effect.path))
                self._notes.drop(effect.note)
            finally:
                self._lock.release()
        while self.untold:
            effect.notices.append(self.untold.pop())
        return effect.notices

    async def _look(self) -> None:
        """Know all files as they are now."""
        await self._record_ended()
        if self._running:
            await self._record_found(self._running[0])
            return
        told = await self._snapshots.take()
        if told or not self._is_taken:
            project = self.project
            project.left_out = [*project.left_out, *told] if self._is_taken else told
            await anyio.to_thread.run_sync(self._notes.keep_left_out, project.left_out)
        self._is_taken = True

    async def _keep_known(self) -> None:
        """Have it outlive this process how the files are. What was found until now is recorded."""
        if self._notes.is_kept:
            with anyio.CancelScope(shield=True):  # what is asked for is not told again
                known = await self._snapshots.export_index(whole=self._notes.wants_all)
                if known:
                    await anyio.to_thread.run_sync(self._notes.know, known)

    async def _record_ended(self) -> None:
        while self._ended:
            await self._record_found(self._ended[0])
            self._notes.drop(self._ended.pop(0).note)

    async def _record_found(self, effect: TrackedOperation) -> None:
        await self._record_waiting()
        found = await self._snapshots.changes()
        effect.notices += map(self._meaning.not_covered, found.notices)
        self._waiting.append((effect, found))  # it is not told again
        await self._record_waiting()

    async def _record_waiting(self) -> None:
        with anyio.CancelScope(shield=True):
            while self._waiting:
                effect, found = self._waiting[0]
                await self._record(effect, found.files, found.folders)
                del self._waiting[0]

    async def _record_written(self, effect: TrackedOperation, path: str) -> None:
        try:
            after = await self._state(path)
        except FileTooLarge as error:
            effect.notices.append(str(error))
            return
        await self._record(effect, [FileChange(path, effect.before, after)])
        if self._is_taken:
            self._snapshots.acknowledge(path, after)

    def _put_note(self, effect: TrackedOperation) -> None:
        note = LogRecord(
            run=effect.run.id,
            session=effect.run.session,
            title=effect.run.title,
            began=effect.began,
            began_ns=time.time_ns() - CLOCK,
            path=effect.path,
            before=effect.before,
        )
        effect.note = self._notes.put(note)

    # -- after a crash ------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Record what was done by processes that did not live to do it."""
        for note, known in self._notes.left(self._workspace.root):
            effect = TrackedOperation(TrackedRun(note.session, id=note.run, title=note.title), note.path)
            effect.began = note.began
            if note.path is not None:
                changes = [FileChange(note.path, note.before, await self._now(note.path))]
            else:
                changes = await self._found_since(note, known)
            made = [each.path for each in changes if each.before is None and is_folder(each.after)]
            await self._record(effect, changes, made)

    async def _found_since(self, note: LogRecord, known: KnownFiles) -> list[FileChange]:
        found = await self._snapshots.modified_since(note.began_ns)
        before = await anyio.to_thread.run_sync(states_before, self._ledger, known)
        there = await self._workspace.stats([self._where(path) for path in before])
        # A link may lead nowhere and be there all the same.
        gone = [
            path
            for path, info in zip(before, there, strict=True)
            if info is None and await self._workspace.look(self._where(path)) is None
        ]
        # What nobody can say of that it was not there may be a person's: it is not told as made by the command.
        touched = {*gone, *(path for path in found if known.whole or path in before)}
        return [
            FileChange(path, before.get(path), None if path in gone else await self._now(path))
            for path in sorted(touched)
        ]

    async def _now(self, path: str) -> FileSnapshot | None:
        try:
            return await self._state(path)
        except (FileTooLarge, WorkspaceError):
            return None

    # -- writing down -------------------------------------------------------------------------------

    def _where(self, path: str) -> str:
        return f"{self._workspace.root.rstrip('/')}/{path}"

    async def _state(self, path: str) -> FileSnapshot | None:
        """What is there, which is kept; None for nothing, and for a socket or a device. Raises ``FileTooLarge``."""
        where = self._where(path)
        thing = await self._workspace.look(where)
        if thing is None or not (is_kept(thing.mode) or stat.S_ISDIR(thing.mode)):
            return None
        if stat.S_ISDIR(thing.mode) or stat.S_ISFIFO(thing.mode):
            return FileSnapshot(EMPTY, thing.mode)
        data = thing.target
        if thing.is_file:
            data = await self._workspace.read_bytes(where, size=LARGEST + 1)
        if len(data) > LARGEST:
            raise FileTooLarge(
                f"{path} has more than {LARGEST >> 20} MiB: what becomes of it is not recorded."
            )
        blob = (await anyio.to_thread.run_sync(self._ledger.put_blobs, [data]))[0]
        return FileSnapshot(blob, state_mode(thing.mode))

    async def _remember(self, run: TrackedRun, changes: Sequence[FileChange], folders: Sequence[str]) -> None:
        """Have the run's checkpoint name how files were, those that it does not name yet, and which folders were not there."""
        if run.checkpoint is None:
            begin = self.project.checkpoints.begin
            run.checkpoint = await begin(run.id, session=run.session, title=run.title)
        folders = await self._meaning.new_folders(folders)
        run.checkpoint = await anyio.to_thread.run_sync(self._grown, run.checkpoint, changes, folders)

    def _grown(
        self, checkpoint: Checkpoint, changes: Sequence[FileChange], folders: Sequence[str]
    ) -> Checkpoint:
        known = {file.path for file in checkpoint.files}
        absent = FileSnapshot("", 0)
        files = [
            FileVersion(path=change.path, blob=before.blob, mode=before.mode)
            for change in changes
            if change.path not in known
            for before in [change.before or absent]
        ]
        if files:
            checkpoint = grown(checkpoint, files, folders)
            self._ledger.add_checkpoint(checkpoint)
        return checkpoint

    async def _record(
        self, effect: TrackedOperation, changes: Sequence[FileChange], folders: Sequence[str] = ()
    ) -> None:
        """Put changes down as the run's, those that nobody has put down meanwhile."""
        fit: list[FileChange] = []
        for change in changes:
            if change.before == change.after:
                continue
            try:
                check_name(self._workspace.root, change.path)
            except OutsideProject as error:  # a name that is no UTF-8
                effect.notices.append(str(error))
            else:
                fit.append(change)
        if fit:
            fit = await self._without_implied(effect.run.checkpoint, fit)
        if not fit:
            return
        new = await anyio.to_thread.run_sync(partial(self._meaning.new, fit, since=effect.began))
        if new:
            await self._remember(effect.run, new, folders)
            effect.notices += await self._meaning.put(effect.run.id, new)

    async def _without_implied(
        self, checkpoint: Checkpoint | None, changes: Sequence[FileChange]
    ) -> list[FileChange]:
        """Without folders of which other changes tell, and with those that are left of what a run made."""
        left = await self._left(checkpoint, changes)
        is_about_folders = any(is_folder(change.before) or is_folder(change.after) for change in changes)
        if not left and not is_about_folders and checkpoint is None:
            return list(changes)
        umask = self._snapshots.umask

        def without() -> list[FileChange]:
            is_known = self._ledger.is_known
            return [
                *told_apart(changes, checkpoint, umask=umask, is_known=is_known),
                *(change for change in left if not is_known(change.path)),
            ]

        return await anyio.to_thread.run_sync(without)

    async def _left(self, checkpoint: Checkpoint | None, changes: Sequence[FileChange]) -> list[FileChange]:
        told = {change.path for change in changes}
        found: dict[str, FileChange] = {}
        for folder in left_behind(changes, checkpoint):
            if folder not in told and folder not in found:
                thing = await self._workspace.look(self._where(folder))
                if thing is not None and stat.S_ISDIR(thing.mode):
                    found[folder] = FileChange(folder, None, FileSnapshot(EMPTY, thing.mode))
        return list(found.values())


class AppliedSink:
    """It has happened to the project's own file: a hunk that is applied, and can be taken back."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def not_covered(self, words: str) -> str:
        return words

    async def new_folders(self, folders: Sequence[str]) -> Sequence[str]:
        return folders

    def new(self, changes: Sequence[FileChange], *, since: str) -> list[FileChange]:
        """Without what somebody else of ours, in another process perhaps, has written and put down meanwhile."""

        def is_known(change: FileChange) -> bool:
            base = self._ledger.get(change.path).base
            there = content_of(base)
            now = (text_hash(base), there.mode if there else 0)
            if now != (_hash(change.after), change.after.mode if change.after else 0):
                return False
            entries = self._ledger.entries(path=change.path)
            return any(each.kind in {"record", "save"} and each.ts >= since for each in entries)

        return [change for change in changes if not is_known(change)]

    async def put(self, run: str, changes: Sequence[FileChange]) -> list[str]:
        await anyio.to_thread.run_sync(self._put, run, changes)
        return []

    def _put(self, run: str, changes: Sequence[FileChange]) -> None:
        for at in range(0, len(changes), BATCH):
            with self._ledger.batch():
                for change in changes[at : at + BATCH]:
                    self._put_one(run, change)

    def _put_one(self, run: str, change: FileChange) -> None:
        before = lines_of_state(change.before, self._ledger.blob)
        after = lines_of_state(change.after, self._ledger.blob)
        # What others did to the file until then is no part of what the run did.
        self._ledger.change(change.path, "rebase", partial(rebased, base=before))
        made = partial(recorded, before=before, after=after, run=run)
        self._ledger.change(change.path, "record", made, run=run)


def _hash(state: FileSnapshot | None) -> str:
    return f"sha256:{state.blob}" if state else text_hash(())


def recorded(review: FileReview, *, before: Lines, after: Lines, run: str) -> FileReview:
    """A review once a run has made ``after`` of a file, which was ``before`` by then, whatever the review knew of it.

    What the run changes where it has changed something already is one hunk, so that all it did can be taken back at once.
    """
    known = rebased(review, before)
    mine = [one for one in known.applied if one.run == run and one.intact]
    if not mine:
        return rebased(known, after, run=run, new_id=new_hunk_id)
    done = rebased(known, after)
    if done is known:
        return known
    without = render(known.base, [_undone(one) for one in sorted(mine, key=lambda one: (one.a, one.b))])
    names = {one.id for one in mine}
    others = (one for one in done.applied if one.id not in names)
    fresh = (
        AppliedHunk(id=new_hunk_id(), a=span.b0, b=span.b1, before=without[span.a0 : span.a1], run=run)
        for span in spans_of(without, after)
    )
    return msgspec.structs.replace(done, applied=(*others, *fresh), rev=review.rev + 1)


def _undone(one: AppliedHunk) -> Hunk:
    return Hunk(id=one.id, a=one.a, b=one.b, layers=(Layer(origin="agent", lines=one.before),))
