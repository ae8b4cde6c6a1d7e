"""Checkpoints as clients see them, and rollbacks."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import msgspec
from anyio.to_thread import run_sync

from newel.agent.errors import NewelError
from newel.review.checkpoints import Checkpoints, RollbackPlan
from newel.review.project import view_of
from newel.review.serialize import CheckpointView, FileView, file_view
from newel.review.store.ledger import Ledger
from newel.review_jobs.errors import BadRequest, NoSuchJob
from newel.review_jobs.files import ReviewFiles
from newel.review_jobs.job_registry import JobRegistry
from newel.review_jobs.journal import EventType, event
from newel.review_jobs.requests import RollbackRequest
from newel.review_jobs.responses import Diff3View, RollbackConflict, RollbackFile, RollbackView


class CheckpointService:
    """The checkpoints of one project. Methods raise ``UnknownCheckpoint``."""

    def __init__(
        self, ledger: Ledger, checkpoints: Checkpoints, files: ReviewFiles, registry: JobRegistry
    ) -> None:
        self._ledger = ledger
        self._checkpoints = checkpoints
        self._files = files
        self._registry = registry

    async def get(self, checkpoint_id: str) -> CheckpointView:
        return await run_sync(lambda: view_of(self._ledger, self._checkpoints.get(checkpoint_id)))

    async def diff3(self, checkpoint_id: str, path: str) -> Diff3View:
        """Also raises ``UnknownCheckpoint`` if the checkpoint has no such file."""
        name = await self._files.saver.name_of(path)
        diff = await run_sync(partial(self._checkpoints.diff3, checkpoint_id, name))
        return Diff3View(
            checkpoint_id=checkpoint_id,
            file_path=diff.path,
            current_file=diff.current,
            checkpoint_base=diff.base,
            agent_proposed=diff.proposed,
            current_patch=diff.current_patch,
            proposed_patch=diff.proposed_patch,
        )

    async def roll_back(self, checkpoint_id: str, request: RollbackRequest) -> RollbackView:
        """Undo a run, or some of its hunks, in the buffers; a save writes the files. With ``dry_run`` only plan it. The
        run's job records the rollback. Raises ``BadRequest``, ``UnknownHunk``, and ``StaleRevision`` if a file's review
        changes meanwhile; then nothing has changed.
        """
        if request.mode == "scoped_selected" and not request.hunk_ids:
            raise BadRequest("A rollback in mode scoped_selected needs hunk_ids.")
        plan = await self._checkpoints.plan(checkpoint_id, request.mode, request.hunk_ids)
        if request.dry_run:
            return _rollback_view(plan, status="planned")
        run = (await self.get(checkpoint_id)).job_id
        about = {"checkpoint_id": checkpoint_id, "mode": request.mode}
        paths = [file.path for file in plan.files]
        await self._record(run, "checkpoint.rollback.started", **about, files=paths)
        try:
            view = await self._execute(plan)
        except NewelError as error:
            await self._record(run, "checkpoint.rollback.failed", **about, error=str(error))
            raise
        conflicts = [msgspec.to_builtins(conflict) for conflict in view.conflicts]
        await self._record(run, "checkpoint.rollback.completed", **about, files=paths, conflicts=conflicts)
        for file in view.buffers:
            await self._registry.publish(await self._files.get(file.file_path), "rollback")
        return view

    async def _execute(self, plan: RollbackPlan) -> RollbackView:
        reviews = await self._checkpoints.rollback(plan)
        run_checkpoint = self._ledger.checkpoint_of_run(plan.run) if reviews else None
        return _rollback_view(
            plan,
            status="completed",
            own_checkpoint=run_checkpoint.id if run_checkpoint else None,
            buffers=tuple(file_view(review) for review in reviews),
        )

    async def _record(self, run: str, kind: EventType, **data: Any) -> None:
        """Add an event to the journal of a run that is a review job and is not running."""
        with contextlib.suppress(NoSuchJob):
            journal = await self._registry.get(run)
            if journal.state.status not in {"queued", "running"}:
                await journal.annotate(event(kind, **data))


def _rollback_view(
    plan: RollbackPlan, *, status: str, own_checkpoint: str | None = None, buffers: tuple[FileView, ...] = ()
) -> RollbackView:
    return RollbackView(
        checkpoint_id=plan.checkpoint,
        mode=plan.mode,
        status=status,
        files=tuple(
            RollbackFile(file_path=file.path, patch=file.patch, hunk_ids=file.hunks) for file in plan.files
        ),
        conflicts=tuple(
            RollbackConflict(file_path=conflict.path, hunk_id=conflict.hunk, reason=conflict.reason)
            for conflict in plan.conflicts
        ),
        rollback_checkpoint_id=own_checkpoint,
        buffers=buffers,
    )
