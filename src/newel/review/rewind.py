"""Undo several runs of a session at once: the files are as if these runs had not been.

    plan = await plan_rewind(project, runs)      # what would change, and what would not; nothing has changed yet
    done = await apply_rewind(project, plan)     # one undo for each run, so that a redo comes back run by run

Each run is undone by itself, the latest first, so the edits of the user and of other sessions stay. The plan works that out in
memory: it undoes a run and saves, as the undo will.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import anyio.to_thread
import msgspec

from newel.review.checkpoints import FilePlan
from newel.review.model.file_kinds import described
from newel.review.model.file_review import FileReview, StaleRevision, buffer
from newel.review.model.history import HistoryEntry, NothingToUndo, entry
from newel.review.model.patch import file_patch
from newel.review.model.rebase import saved
from newel.review.project import ProjectReview, RollbackHunks, hunks_in, intact_hunks, rollback_hunks
from newel.review.revert import FileHistory, HunkNames, RevertConflict, revert_hunks
from newel.review.save_outcome import SaveProgress, SaveResult
from newel.review.store.ledger import Checkpoint, FileVersion
from newel.review.undo_order import UndoOrder


class RewindPlan(NamedTuple):
    """``files`` are those that change if ``runs`` are undone, the latest first; ``conflicts`` are what stays, with the reason."""

    runs: Sequence[Checkpoint]
    files: Sequence[FilePlan]
    conflicts: Sequence[RevertConflict]

    @property
    def writes(self) -> int:
        """How many files the undos write; one that several runs have changed counts for each."""
        paths = {file.path for file in self.files}
        return sum(before.path in paths for checkpoint in self.runs for before in checkpoint.files)


class RewindResult(NamedTuple):
    """The files that were written, and what stays."""

    saved: Sequence[SaveResult]
    conflicts: Sequence[RevertConflict]


def runs_since(order: UndoOrder, session: str, moment: str) -> list[Checkpoint]:
    """The runs of a session in force that began their changes at ``moment`` or later, the latest first. A redo counts as its run."""
    return [
        checkpoint
        for checkpoint in order.to_undo
        if checkpoint.session == session and order.root(checkpoint).created >= moment
    ]


async def plan_rewind(project: ProjectReview, runs: Sequence[Checkpoint]) -> RewindPlan:
    """Plan to undo runs, the latest first. Updates their files from the disk. Raises ``LedgerError``."""
    problems: dict[str, str] = {}
    for checkpoint in runs:
        problems |= (await project.refresh(checkpoint)).problems
    return await anyio.to_thread.run_sync(_plan, project, runs, problems, await project.order())


def _plan(
    project: ProjectReview, runs: Sequence[Checkpoint], problems: dict[str, str], order: UndoOrder
) -> RewindPlan:
    paths = dict.fromkeys(before.path for checkpoint in runs for before in checkpoint.files)
    files: list[FilePlan] = []
    conflicts = [RevertConflict(path=path, reason=reason) for path, reason in problems.items()]
    for path in paths:
        if path in problems:
            continue
        review = project.ledger.get(path)
        simulated = _SimulatedFile(review, project.ledger.entries(path=path))
        for checkpoint in runs:
            if version := next((each for each in checkpoint.files if each.path == path), None):
                is_rest = order.is_partly_rolled_back(checkpoint)
                of_rollback = rollback_hunks(project.ledger, checkpoint)
                simulated.undo(checkpoint.run, version, of_rollback, is_rest=is_rest)
        conflicts += simulated.conflicts
        before, after = buffer(review), buffer(simulated.review)
        if before != after:
            patch = file_patch(path, before, after)
            about = described(before, after).about
            files.append(FilePlan(path=path, rev=review.rev, patch=patch, about=about))
    return RewindPlan(runs, files, conflicts)


class _SimulatedFile:
    """A file in memory, whose runs are undone and saved one after the other."""

    def __init__(self, review: FileReview, entries: Sequence[HistoryEntry]) -> None:
        self.review = review
        self.conflicts: list[RevertConflict] = []
        self._entries = [each for each in entries if each.rev <= review.rev]

    def undo(self, run: str, version: FileVersion, of_rollback: RollbackHunks, *, is_rest: bool) -> None:
        """Undo a run before which the file was this ``version``. ``is_rest``: an earlier undo has left a part, and hunks that cannot be
        undone are none of it.
        """
        before = self.review
        history = FileHistory.of(self._entries, run)
        shown, applied = hunks_in(before, version, run, of_rollback)
        if is_rest:
            applied = intact_hunks(before, lambda: self._entries, applied)
        step = revert_hunks(before, history, run, HunkNames([*shown, *applied]))
        self.conflicts += step.conflicts
        if step.after is before:
            return
        after = msgspec.structs.replace(step.after, rev=before.rev + 1)
        self._add(entry("rollback", before, after, hunks=step.hunks, run=f"rewind of {run}"), after)
        known = {hunk.id for hunk in before.hunks}
        fresh = [hunk.id for hunk in after.hunks if hunk.id not in known and hunk.state == "accepted"]
        if fresh:
            written = saved(after, fresh)
            self._add(entry("save", after, written), written)

    def _add(self, change: HistoryEntry, review: FileReview) -> None:
        self.review = review
        self._entries.append(change)


async def apply_rewind(
    project: ProjectReview, plan: RewindPlan, progress: SaveProgress | None = None
) -> RewindResult:
    """Undo the runs of a plan. If that ends early, some of them are undone, and the next rewind goes on; only one that was stopped by its
    ``progress``, or could not write a file, is undone in part. Raises ``StaleRevision`` if a file has
    changed since the plan; then nothing has changed. Raises as ``ProjectReview.apply``.
    """
    for checkpoint in plan.runs:
        await project.refresh(checkpoint)
    for file in plan.files:
        if (await anyio.to_thread.run_sync(project.ledger.get, file.path)).rev != file.rev:
            raise StaleRevision(f"{file.path} has changed meanwhile. Nothing was changed; rewind again.")
    written: list[SaveResult] = []
    conflicts = {(each.path, each.hunk): each for each in plan.conflicts}
    for checkpoint in plan.runs:
        try:
            undo = await project.undo(checkpoint)
        except NothingToUndo:  # nothing of it is left that can be undone
            continue
        conflicts |= {(each.path, each.hunk): each for each in undo.conflicts}
        if undo.files:
            written += await project.apply(undo, progress)
    return RewindResult(written, [*conflicts.values()])
