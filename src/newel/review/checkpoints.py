"""Checkpoints: the files before a run of an agent, and the rollback to them.

    points = Checkpoints(ledger, saver)
    point = await points.begin(run)                     # a run starts
    await points.touch(point.id, "src/a.py")            # before it changes a file
    plan = await points.plan(point.id, "hard_all")      # a rollback, for the user to confirm
    await points.rollback(plan)                         # changes the buffers; a save writes them to the disk

A rollback is a run like any other, with a checkpoint of its own, so it can be rolled back. The history has everything that a
rollback removes from a buffer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

import anyio.to_thread
import msgspec

from newel.agent.messages import Wire, new_id, now
from newel.review.folders import grown, missing, not_emptied
from newel.review.model.file_kinds import described
from newel.review.model.file_lines import content_of, is_blob, lines_of_state
from newel.review.model.file_review import (
    FileReview,
    Lines,
    ReviewError,
    StaleRevision,
    UnknownHunk,
    buffer,
    root_of,
)
from newel.review.model.history import HistoryEntry, buffer_before
from newel.review.model.patch import file_patch
from newel.review.revert import (
    FileHistory,
    HunkNames,
    RevertConflict,
    RevertStep,
    restore_to,
    revert_hunks,
)
from newel.review.save import DiskSync, RefreshResult
from newel.review.save_plans import file_version, planned_write
from newel.review.store.ledger import Checkpoint, FileVersion, Ledger
from newel.review.store.pending_saves import SaveIntent
from newel.workspace.snapshots.tree import FileSnapshot

Mode = Literal["hard_all", "scoped_selected"]

TITLE: Final = 80
"""Characters of the title of a run in that of its rollback."""


class UnknownCheckpoint(ReviewError):
    """There is no such checkpoint, or it does not include the file."""


class Diff3(Wire, frozen=True, kw_only=True):
    """Three versions of a file: ``current``, the buffer; ``base``, before the run; ``proposed``, after the run; with
    the unified diffs from ``base``. A text is None for no file, and for one without text.
    """

    path: str
    current: str | None
    base: str | None
    proposed: str | None
    current_patch: str
    proposed_patch: str


class FileVersions(NamedTuple):
    """The lines of a file before a run, as the run left it, and now."""

    base: Lines
    proposed: Lines
    current: Lines


class FilePlan(Wire, frozen=True, kw_only=True):
    """The effect of a rollback on a file's buffer of revision ``rev``, as a unified diff; ``hunks`` are those that are undone.
    ``about`` describes what no line shows.
    """

    path: str
    rev: int
    patch: str
    hunks: tuple[str, ...] = ()
    about: str = ""


class RollbackPlan(Wire, frozen=True, kw_only=True):
    """A planned rollback. ``run`` is its own run, which its own checkpoint belongs to, ``intent`` that of its save. ``files`` are those
    that it changes.
    """

    checkpoint: str
    mode: Mode
    run: str
    intent: str
    hunk_ids: tuple[str, ...] = ()
    files: tuple[FilePlan, ...] = ()
    conflicts: tuple[RevertConflict, ...] = ()


class Checkpoints:
    """The checkpoints of a ledger. Raises ``LedgerError``."""

    def __init__(self, ledger: Ledger, saver: DiskSync) -> None:
        self._ledger = ledger
        self._saver = saver
        self._lock = threading.RLock()

    # -- taking them --------------------------------------------------------------------------------

    async def begin(self, run: str, *, session: str = "", title: str = "") -> Checkpoint:
        """The checkpoint of a run: the one it has, or a new one."""
        return await anyio.to_thread.run_sync(self._checkpoint_for, run, session, title)

    def _checkpoint_for(self, run: str, session: str, title: str) -> Checkpoint:
        with self._lock:
            if existing := self._ledger.checkpoint_of_run(run):
                return existing
            checkpoint = new_checkpoint(run, session=session, title=title)
            self._ledger.add_checkpoint(checkpoint)
            return checkpoint

    async def touch(self, checkpoint: str, *paths: str, as_known: bool = False) -> None:
        """Add files with their current buffers, before a run changes them; files that were added before stay. Updates them from the
        disk first, unless ``as_known``. Raises ``UnknownCheckpoint``, and whatever ``DiskSync.refresh`` raises.
        """
        if not as_known:
            for path in paths:
                await self._saver.refresh(path)
        fresh = await anyio.to_thread.run_sync(self._missing_files, checkpoint, paths)
        if fresh:
            new = [before.path for before in fresh if not before.blob]
            folders = await missing(self._saver.workspace, new)
            await anyio.to_thread.run_sync(self._add_files, checkpoint, fresh, folders)

    def _missing_files(self, checkpoint_id: str, paths: Sequence[str]) -> list[FileVersion]:
        """The current versions of files that a checkpoint lacks."""
        recorded_paths = {before.path for before in self.get(checkpoint_id).files}
        return [self._before(path) for path in dict.fromkeys(paths) if path not in recorded_paths]

    def _add_files(
        self, checkpoint_id: str, fresh: Sequence[FileVersion], missing: Mapping[str, Sequence[str]]
    ) -> None:
        """``missing`` are the missing parent folders of missing files."""
        with self._lock:
            checkpoint = self.get(checkpoint_id)
            recorded_paths = {before.path for before in checkpoint.files}
            files = [before for before in fresh if before.path not in recorded_paths]
            folders = [name for before in files if not before.blob for name in missing[before.path]]
            self._ledger.add_checkpoint(grown(checkpoint, files, folders))

    def _before(self, path: str) -> FileVersion:
        return file_version(self._ledger, path, buffer(self._ledger.get(path)))

    # -- looking at them ----------------------------------------------------------------------------

    def get(self, checkpoint_id: str) -> Checkpoint:
        """Raises ``UnknownCheckpoint``."""
        if checkpoint := self._ledger.checkpoint(checkpoint_id):
            return checkpoint
        raise UnknownCheckpoint(f"There is no checkpoint {checkpoint_id}. List the checkpoints.")

    def diff3(self, checkpoint_id: str, path: str) -> Diff3:
        """Raises ``UnknownCheckpoint``, also for a file that the checkpoint does not include."""
        versions = self.versions(self.get(checkpoint_id), path)
        return Diff3(
            path=path,
            current=_text(versions.current),
            base=_text(versions.base),
            proposed=_text(versions.proposed),
            current_patch=file_patch(path, versions.base, versions.current),
            proposed_patch=file_patch(path, versions.base, versions.proposed),
        )

    def versions(self, checkpoint: Checkpoint, path: str, review: FileReview | None = None) -> FileVersions:
        """``review`` is the current one, if it is known. Raises ``UnknownCheckpoint`` for a file that the checkpoint does not include."""
        base = self._lines(_before_of(checkpoint, path))
        review = review or self._ledger.get(path)
        later = self._ledger.entries_after(path, checkpoint.run)
        proposed = base
        if later is not None:
            proposed = buffer_before(review, [entry for entry in later if entry.rev <= review.rev])
        return FileVersions(base, proposed, buffer(review))

    # -- going back ---------------------------------------------------------------------------------

    async def plan(
        self,
        checkpoint_id: str,
        mode: Mode,
        hunk_ids: Sequence[str] = (),
        refreshed: RefreshResult | None = None,
    ) -> RollbackPlan:
        """Plan a rollback. Changes no file and no buffer, but updates the buffers from the disk, unless they were ``refreshed`` just now.

        ``hard_all`` restores each file to its state before the run, whatever changed since. ``scoped_selected`` undoes the hunks
        ``hunk_ids`` of the run and nothing else; a hunk with a newer change on it is a conflict, and stays. Raises
        ``UnknownCheckpoint`` and ``UnknownHunk``.
        """
        checkpoint = await anyio.to_thread.run_sync(self.get, checkpoint_id)
        refreshed = refreshed or await self._saver.refresh_all(before.path for before in checkpoint.files)
        run = f"rollback_{new_id()[:16]}"
        plan = RollbackPlan(
            checkpoint=checkpoint_id, mode=mode, run=run, intent=run, hunk_ids=tuple(hunk_ids)
        )
        steps, conflicts = await anyio.to_thread.run_sync(self._work_out, plan, checkpoint, refreshed)
        steps = await self._without_folders_in_use(plan, checkpoint, steps)
        return await anyio.to_thread.run_sync(self._filled, plan, steps, conflicts)

    def _has_changed(self, checkpoint: Checkpoint, path: str) -> bool:
        """Whether a run changed a file: it may have been left out of a review."""
        return self._ledger.entries_after(path, checkpoint.run) is not None

    def _work_out(
        self,
        plan: RollbackPlan,
        checkpoint: Checkpoint,
        refreshed: RefreshResult,
    ) -> tuple[list[RevertStep], list[RevertConflict]]:
        """What a plan does to each file, and the files that it has to leave out."""
        conflicts = [
            RevertConflict(path=path, reason=reason)
            for path, reason in refreshed.problems.items()
            if plan.mode == "hard_all" or self._has_changed(checkpoint, path)
        ]
        left_alone = {conflict.path for conflict in conflicts}
        known = {review.path: review for review in refreshed.reviews}
        paths = (before.path for before in checkpoint.files if before.path not in left_alone)
        reviews = (known.get(path) or self._ledger.get(path) for path in paths)
        steps = list(self._steps(plan, checkpoint, reviews))
        if plan.mode == "scoped_selected":
            known_ids = {name for step in steps for name in step.known}
            for conflict in conflicts:  # hunks of those files are valid, but stay
                review = self._ledger.get(conflict.path)
                known_ids |= {hunk.id for hunk in (*review.hunks, *review.applied)}
            if unknown := [name for name in plan.hunk_ids if name not in known_ids]:
                raise UnknownHunk(
                    f"Checkpoint {plan.checkpoint} has no hunk {', '.join(unknown)} now. Read the file again."
                )
        return steps, conflicts

    async def _without_folders_in_use(
        self, plan: RollbackPlan, checkpoint: Checkpoint, steps: Sequence[RevertStep]
    ) -> list[RevertStep]:
        """The steps, with a conflict for each folder to be removed or replaced that has others' files in it: they stay."""
        folders = [step.before.path for step in steps if step.removes_folder]
        if not folders:
            return list(steps)
        gone = {step.before.path for step in steps if step.removes_folder or not buffer(step.after)}
        checkpoints = [checkpoint]
        if plan.mode == "hard_all":
            checkpoints = await anyio.to_thread.run_sync(self._ledger.checkpoints)
        created = {folder for each in checkpoints for folder in each.folders}
        kept = await not_emptied(self._saver.workspace, folders, gone, created, at_once=self._saver.at_once)
        return [
            step.skipped(f"{step.before.path}: the folder stays, because {kept[step.before.path]} is in it.")
            if step.before.path in kept
            else step
            for step in steps
        ]

    def _filled(
        self, plan: RollbackPlan, steps: Sequence[RevertStep], conflicts: Sequence[RevertConflict]
    ) -> RollbackPlan:
        files = tuple(
            FilePlan(
                path=step.before.path,
                rev=step.before.rev,
                patch=file_patch(step.before.path, buffer(step.before), buffer(step.after)),
                hunks=step.hunks,
                about=described(buffer(step.before), buffer(step.after)).about,
            )
            for step in steps
            if step.after is not step.before
        )
        found_conflicts = (conflict for step in steps for conflict in step.conflicts)
        return msgspec.structs.replace(plan, files=files, conflicts=(*conflicts, *found_conflicts))

    async def rollback(self, plan: RollbackPlan, *, save: bool = False) -> list[FileReview]:
        """Apply a plan to the buffers; ``DiskSync.save`` writes them to the disk. Raises ``StaleRevision`` if a file's review has changed
        since the plan; then nothing has changed.

        ``save``: the caller saves at once, and ends ``plan.intent``; if it dies, ``DiskSync.recover`` does.
        """
        folders = await missing(self._saver.workspace, [file.path for file in plan.files])
        return await anyio.to_thread.run_sync(self._roll_back_all, plan, save, folders)

    def _roll_back_all(
        self, plan: RollbackPlan, save: bool, missing: Mapping[str, Sequence[str]]
    ) -> list[FileReview]:
        with self._lock, self._ledger.batch():
            checkpoint = self.get(plan.checkpoint)
            self._check(plan)
            if not plan.files:
                return []
            own_checkpoint = self._begin_rollback(plan.run, checkpoint)
            self._add_files(
                own_checkpoint.id,
                self._missing_files(own_checkpoint.id, [file.path for file in plan.files]),
                missing,
            )
            steps = self._steps(plan, checkpoint, (self._ledger.get(file.path) for file in plan.files))
            reviews = [
                self._roll_back(plan, file, step) for file, step in zip(plan.files, steps, strict=True)
            ]
            if save:
                files = [planned_write(review, self.restoring_hunks(plan, review)) for review in reviews]
                self._ledger.begin_saving(SaveIntent(id=plan.intent, run=plan.run, files=tuple(files)))
            return reviews

    def _begin_rollback(self, run: str, of: Checkpoint) -> Checkpoint:
        """The checkpoint of a rollback. Its title names the original run, so that it does not grow with repeated rollbacks."""
        about = of.about or of.title or of.id
        about = about if len(about) <= TITLE else about[: TITLE - 1] + "…"
        is_redo = bool(of.about) and not of.is_redo
        title = f"{'Redo' if is_redo else 'Undo'} of {about}"
        new_checkpoint = msgspec.structs.replace(
            self._checkpoint_for(run, of.session, title),
            about=about,
            is_redo=is_redo,
            of=of.id,
            is_partial=False,
            is_stopped=False,
            has_skipped=False,
        )
        self._ledger.add_checkpoint(new_checkpoint)
        return new_checkpoint

    def restoring_hunks(self, plan: RollbackPlan, review: FileReview) -> list[str]:
        """The hunks that a rollback added to a file's review, for a save to write."""
        swaps = [entry.forward.hunks for entry in self._ledger.entries(path=review.path, run=plan.run)]
        replaced = {root_of(hunk.id) for swap in swaps for hunk in swap.old}
        created = {hunk.id for swap in swaps for hunk in swap.new if root_of(hunk.id) not in replaced}
        return [hunk.id for hunk in review.hunks if hunk.id in created and hunk.state == "accepted"]

    def _check(self, plan: RollbackPlan) -> None:
        for file in plan.files:
            rev = self._ledger.get(file.path).rev
            if rev != file.rev:
                raise StaleRevision(
                    f"{file.path} is at revision {rev}, and the rollback was planned for {file.rev}. Plan it again."
                )

    def _roll_back(self, plan: RollbackPlan, file: FilePlan, step: RevertStep) -> FileReview:
        changed = self._ledger.change(
            file.path, "rollback", lambda _: step.after, rev=file.rev, hunks=file.hunks, run=plan.run
        )
        return changed.review

    def _steps(
        self, plan: RollbackPlan, checkpoint: Checkpoint, reviews: Iterable[FileReview]
    ) -> Iterator[RevertStep]:
        """What a plan does to each file."""
        if plan.mode == "hard_all":
            for review in reviews:
                before = _before_of(checkpoint, review.path)
                lines = self._lines(before)
                yield restore_to(review, self._entries(review), checkpoint, before, lines)
            return
        names = HunkNames(plan.hunk_ids)
        rollbacks: dict[str, list[HistoryEntry]] = {}
        for entry in self._ledger.entries(run=checkpoint.run, kind="rollback"):
            rollbacks.setdefault(entry.path, []).append(entry)
        for review in reviews:
            own = [entry for entry in rollbacks.get(review.path, ()) if entry.rev <= review.rev]
            history = FileHistory(own, partial(self._entries, review))
            yield revert_hunks(review, history, checkpoint.run, names)

    def _entries(self, review: FileReview) -> list[HistoryEntry]:
        """The history of a file up to a review of it."""
        return [entry for entry in self._ledger.entries(path=review.path) if entry.rev <= review.rev]

    def _lines(self, before: FileVersion) -> Lines:
        return (
            lines_of_state(FileSnapshot(before.blob, before.mode), self._ledger.find_blob)
            if before.blob
            else ()
        )


def new_checkpoint(run: str, *, session: str = "", title: str = "", created: str = "") -> Checkpoint:
    """A checkpoint that is not in the ledger yet; ``created`` is by default now."""
    created = created or now()
    return Checkpoint(id=f"cp_{new_id()[:16]}", created=created, run=run, session=session, title=title)


def _before_of(checkpoint: Checkpoint, path: str) -> FileVersion:
    for before in checkpoint.files:
        if before.path == path:
            return before
    raise UnknownCheckpoint(f"Checkpoint {checkpoint.id} does not include {path}.")


def _text(lines: Lines) -> str | None:
    content = content_of(lines)
    return None if content is None or is_blob(lines) else content.data.decode()
