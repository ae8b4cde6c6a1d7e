"""Checkpoints as clients see them, and the way back to one."""

from __future__ import annotations

from functools import partial

import anyio.to_thread

from newel.jobs.review.files import ReviewFiles
from newel.jobs.review.payloads import Payload, RollbackRequest
from newel.review.checkpoints import Checkpoints, Diff3, Plan
from newel.review.saving import checked_path
from newel.review.store import Checkpoint, Ledger
from newel.review.views import CheckpointView, FileView, checkpoint_view, file_view


class Diff3View(Payload, frozen=True):
    """A file three times; None where it is no file, or no text. The patches are unified diffs from ``checkpoint_base``."""

    checkpoint_id: str
    file_path: str
    current_file: str | None
    checkpoint_base: str | None
    agent_proposed: str | None
    current_patch: str
    proposed_patch: str


class RollbackFile(Payload, frozen=True):
    """What a rollback does to a file's buffer."""

    file_path: str
    patch: str
    hunk_ids: tuple[str, ...]


class RollbackConflict(Payload, frozen=True):
    """What it leaves alone, and why; ``hunk_id`` is empty where that is a whole file."""

    file_path: str
    hunk_id: str
    reason: str


class RollbackView(Payload, frozen=True):
    """A rollback. ``status`` is ``planned`` of one that was only looked at. The buffers have changed, and the files are
    written with the next save; ``rollback_checkpoint_id`` is how they were before.
    """

    checkpoint_id: str
    mode: str
    status: str
    files: tuple[RollbackFile, ...]
    conflicts: tuple[RollbackConflict, ...]
    rollback_checkpoint_id: str | None = None
    buffers: tuple[FileView, ...] = ()


class Rollbacks:
    """The checkpoints of one project."""

    def __init__(self, ledger: Ledger, checkpoints: Checkpoints, files: ReviewFiles) -> None:
        self._ledger = ledger
        self._checkpoints = checkpoints
        self._files = files

    async def all(self) -> list[CheckpointView]:
        """The latest first."""
        return await anyio.to_thread.run_sync(
            lambda: [self._view(checkpoint) for checkpoint in self._ledger.checkpoints()]
        )

    async def get(self, checkpoint_id: str) -> CheckpointView:
        """Raises ``UnknownCheckpoint``."""
        return await anyio.to_thread.run_sync(lambda: self._view(self._checkpoints.get(checkpoint_id)))

    def _view(self, checkpoint: Checkpoint) -> CheckpointView:
        return checkpoint_view(checkpoint, [self._ledger.get(before.path) for before in checkpoint.files])

    async def diff3(self, checkpoint_id: str, path: str) -> Diff3View:
        """Raises ``UnknownCheckpoint``, also where it has no such file."""
        name = checked_path(self._files.root, path)
        found: Diff3 = await anyio.to_thread.run_sync(partial(self._checkpoints.diff3, checkpoint_id, name))
        return Diff3View(
            checkpoint_id=checkpoint_id,
            file_path=found.path,
            current_file=found.current,
            checkpoint_base=found.base,
            agent_proposed=found.proposed,
            current_patch=found.current_patch,
            proposed_patch=found.proposed_patch,
        )

    async def plan(self, checkpoint_id: str, request: RollbackRequest) -> Plan:
        """Raises ``UnknownCheckpoint`` and ``UnknownHunk``."""
        return await self._checkpoints.plan(checkpoint_id, request.mode, request.hunk_ids)

    async def carry_out(self, plan: Plan) -> RollbackView:
        """Raises ``StaleRevision`` if a file's review has changed since the plan; then nothing has changed."""
        reviews = await self._checkpoints.rollback(plan)
        own = [one.id for one in self._ledger.checkpoints() if one.run == plan.run] if reviews else []
        return rollback_view(
            plan,
            status="completed",
            own=own[0] if own else None,
            buffers=tuple(file_view(review) for review in reviews),
        )


def rollback_view(
    plan: Plan, *, status: str, own: str | None = None, buffers: tuple[FileView, ...] = ()
) -> RollbackView:
    return RollbackView(
        checkpoint_id=plan.checkpoint,
        mode=plan.mode,
        status=status,
        files=tuple(
            RollbackFile(file_path=each.path, patch=each.patch, hunk_ids=each.hunks) for each in plan.files
        ),
        conflicts=tuple(
            RollbackConflict(file_path=each.path, hunk_id=each.hunk, reason=each.reason)
            for each in plan.conflicts
        ),
        rollback_checkpoint_id=own,
        buffers=buffers,
    )
