"""Which run an undo or a redo without a name is about.

    runs 1 2 3      undo: 3     undo: 2     redo: 2     redo: 3     a new run: nothing to redo

An undo is a run with a checkpoint, as is a redo, which rolls back an undo. So each checkpoint is *forward* (a run, or a redo) or
*backward* (an undo), and in force until another one rolls it back (``Checkpoint.of``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from newel.review.store.ledger import Checkpoint, Ledger


def is_undo(checkpoint: Checkpoint) -> bool:
    """Whether it is the checkpoint of an undo, and not of a run or a redo."""
    return bool(checkpoint.about) and not checkpoint.is_redo


def mark_partly_undone(ledger: Ledger, runs: Collection[str]) -> None:
    """Hunks of these runs are about to be written: if such a run was undone, that is true only for a part of it from now on, and it can
    be undone again. Blocks.
    """
    checkpoints = ledger.checkpoints()
    ids = {checkpoint.id for checkpoint in checkpoints if checkpoint.run in runs}
    for checkpoint in checkpoints:
        if checkpoint.of in ids and not checkpoint.is_partial:
            ledger.add_checkpoint(msgspec.structs.replace(checkpoint, is_partial=True))


class UndoOrder:
    """The order among ``checkpoints``, the latest first."""

    def __init__(self, checkpoints: Sequence[Checkpoint]) -> None:
        self.checkpoints = checkpoints
        self._by_id = {checkpoint.id: checkpoint for checkpoint in checkpoints}
        self._rolled_back_by = {
            checkpoint.of: checkpoint
            for checkpoint in reversed(checkpoints)
            if checkpoint.of and not checkpoint.is_partial
        }
        self._partly = {checkpoint.of for checkpoint in checkpoints if checkpoint.is_partial}

    @property
    def to_undo(self) -> list[Checkpoint]:
        """The runs and redos in force, the latest first."""
        return [checkpoint for checkpoint in self.checkpoints if self._stands(checkpoint, undo=False)]

    @property
    def skipped(self) -> list[Checkpoint]:
        """The runs and redos that are undone but for hunks with later changes on them, the latest first. These may be gone by now."""
        rolled_back = {checkpoint.of for checkpoint in self.checkpoints if checkpoint.has_skipped}
        return [each for each in self.checkpoints if each.id in rolled_back and not is_undo(each)]

    @property
    def to_redo(self) -> list[Checkpoint]:
        """The undos in force since the last run, the latest first."""
        last = next((at for at, each in enumerate(self.checkpoints) if not each.about), len(self.checkpoints))
        return [checkpoint for checkpoint in self.checkpoints[:last] if self._stands(checkpoint, undo=True)]

    def now(self, checkpoint: Checkpoint) -> Checkpoint:
        """The one in force about the same changes: the undo of a run, or the redo of that."""
        seen = {checkpoint.id}
        while (later := self._rolled_back_by.get(checkpoint.id)) is not None and later.id not in seen:
            checkpoint = later
            seen.add(later.id)
        return checkpoint

    def to_undo_of(self, checkpoint: Checkpoint) -> Checkpoint:
        """The one to undo of a run, its redo if it was redone. If it is undone, that of which hunks were skipped, or else the run."""
        latest = self.now(checkpoint)
        if not is_undo(latest):
            return latest
        skipped = (each for each in self.skipped if self.root(each).id == checkpoint.id)
        return next(skipped, checkpoint)

    def root(self, checkpoint: Checkpoint) -> Checkpoint:
        """The run that an undo or a redo is about in the end."""
        while checkpoint.of and (rolled_back := self._by_id.get(checkpoint.of)) is not None:
            checkpoint = rolled_back
        return checkpoint

    def is_undone(self, checkpoint: Checkpoint) -> bool:
        """Whether a run is undone, and not redone since."""
        return not is_undo(checkpoint) and is_undo(self.now(checkpoint))

    def is_partly_rolled_back(self, checkpoint: Checkpoint) -> bool:
        """Whether an undo has left a part of it: some hunks were named, or a file could not be written."""
        return checkpoint.id in self._partly

    def stopped(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """The latest checkpoint, if it is a rollback of this one that the user has stopped: to complete it is the same rollback, so one
        redo brings all of it back.
        """
        latest = self.checkpoints[0] if self.checkpoints else None
        return latest if latest and latest.is_stopped and latest.of == checkpoint.id else None

    def before(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """The next one that an undo, or for an undo a redo, would be about."""
        others = self.to_redo if is_undo(checkpoint) else self.to_undo
        ids = [each.id for each in self.checkpoints]
        at = ids.index(checkpoint.id) if checkpoint.id in ids else -1
        return next((other for other in others if ids.index(other.id) > at), None)

    def _stands(self, checkpoint: Checkpoint, *, undo: bool) -> bool:
        return is_undo(checkpoint) == undo and checkpoint.id not in self._rolled_back_by
