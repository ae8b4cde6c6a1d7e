"""Checkpoints as clients see them, and the way back to one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import anyio.to_thread
import msgspec

from newel.agent.errors import NewelError
from newel.review.checkpoints import Checkpoints, Diff3, RollbackPlan
from newel.review.project import view_of
from newel.review.serialize import CheckpointView, FileView, file_view
from newel.review.store.ledger import Ledger
from newel.review_jobs.errors import BadRequest
from newel.review_jobs.file_reviews import ReviewFiles
from newel.review_jobs.journal import JobEvent, event
from newel.review_jobs.schemas import (
    Diff3View,
    RollbackConflict,
    RollbackFile,
    RollbackRequest,
    RollbackView,
)

Tell = Callable[[str, JobEvent], Awaitable[None]]
"""Takes a run's id, and what happened to it."""


class Rollbacks:
    """The checkpoints of one project."""

    def __init__(self, ledger: Ledger, checkpoints: Checkpoints, files: ReviewFiles) -> None:
        self._ledger = ledger
        self._checkpoints = checkpoints
        self._files = files

    async def get(self, checkpoint_id: str) -> CheckpointView:
        """Raises ``UnknownCheckpoint``."""
        return await anyio.to_thread.run_sync(
            lambda: view_of(self._ledger, self._checkpoints.get(checkpoint_id))
        )

    async def diff3(self, checkpoint_id: str, path: str) -> Diff3View:
        """Raises ``UnknownCheckpoint``, also where it has no such file."""
        name = await self._files.saver.name_of(path)
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

    async def roll_back(self, checkpoint_id: str, request: RollbackRequest, tell: Tell) -> RollbackView:
        """Take a run back in the buffers, all of it or some of its hunks, or only say what that would change. ``tell`` puts
        it into the journal of that run. Raises ``BadRequest``, ``UnknownCheckpoint``, ``UnknownHunk`` and ``StaleRevision``.
        """
        if request.mode == "scoped_selected" and not request.hunk_ids:
            raise BadRequest("A scoped rollback names the hunks that it takes back.")
        plan = await self.plan(checkpoint_id, request)
        if request.dry_run:
            return rollback_view(plan, status="planned")
        run = (await self.get(checkpoint_id)).job_id
        about = {"checkpoint_id": checkpoint_id, "mode": request.mode}
        paths = [each.path for each in plan.files]
        await tell(run, event("checkpoint.rollback.started", **about, files=paths))
        try:
            done = await self.carry_out(plan)
        except NewelError as error:
            await tell(run, event("checkpoint.rollback.failed", **about, error=str(error)))
            raise
        conflicts = [msgspec.to_builtins(each) for each in done.conflicts]
        await tell(run, event("checkpoint.rollback.completed", **about, files=paths, conflicts=conflicts))
        return done

    async def plan(self, checkpoint_id: str, request: RollbackRequest) -> RollbackPlan:
        """Raises ``UnknownCheckpoint`` and ``UnknownHunk``."""
        return await self._checkpoints.plan(checkpoint_id, request.mode, request.hunk_ids)

    async def carry_out(self, plan: RollbackPlan) -> RollbackView:
        """Raises ``StaleRevision`` if a file's review has changed since the plan; then nothing has changed."""
        reviews = await self._checkpoints.rollback(plan)
        own = self._ledger.checkpoint_of_run(plan.run) if reviews else None
        return rollback_view(
            plan,
            status="completed",
            own=own.id if own else None,
            buffers=tuple(file_view(review) for review in reviews),
        )


def rollback_view(
    plan: RollbackPlan, *, status: str, own: str | None = None, buffers: tuple[FileView, ...] = ()
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
