"""Undo, redo and rewind of runs for clients: what a conversation's ``/undo``, ``/redo`` and ``/rewind`` do to the files.

Unlike a rollback, which changes buffers under review, these write the files at once. The user confirms a plan: a client asks for it
with ``dry_run``, and names its files and their revisions when it applies it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from anyio.to_thread import run_sync

from newel.review.checkpoints import FilePlan
from newel.review.model.file_review import StaleRevision
from newel.review.model.history import NothingToUndo
from newel.review.project import ProjectReview
from newel.review.revert import RevertConflict
from newel.review.rewind import apply_rewind, plan_rewind, runs_since
from newel.review.save_outcome import SaveProgress, SaveResult
from newel.review.store.ledger import Checkpoint
from newel.review_jobs.files import ReviewFiles
from newel.review_jobs.job_registry import JobRegistry
from newel.review_jobs.requests import PlannedRevision, RewindRequest, UndoRunRequest
from newel.review_jobs.responses import OperationView, RewindFile, RewindView, RollbackConflict

CHANGED = "The files have changed since the preview. Nothing was undone; look at it again."


class RewindService:
    """The runs of one project. Methods raise ``UnknownCheckpoint``, ``NothingToUndo``, and ``StaleRevision`` if the files are not as
    the client has seen them; then nothing has changed. They raise ``SaveStopped`` after ``stop``.
    """

    def __init__(self, project: ProjectReview, files: ReviewFiles, registry: JobRegistry) -> None:
        self._project = project
        self._files = files
        self._registry = registry
        self._running: dict[str, SaveProgress] = {}
        """Of the operations that clients have named."""

    def progress(self, operation: str) -> OperationView:
        progress = self._running.get(operation, SaveProgress())
        return OperationView(done=progress.done, total=progress.total)

    def stop(self, operation: str) -> OperationView:
        """Stop an operation between two files; nothing happens if it has ended."""
        if progress := self._running.get(operation):
            progress.stop()
        return self.progress(operation)

    async def undo(self, checkpoint_id: str, request: UndoRunRequest) -> RewindView:
        """Undo a run, or its latest redo. The user's own later edits stay."""
        checkpoint, order = (
            await run_sync(self._project.checkpoints.get, checkpoint_id),
            await self._project.order(),
        )
        if order.is_undone(checkpoint):
            raise NothingToUndo("This run is undone already.")
        return await self._undo([order.now(checkpoint)], request)

    async def rewind(self, request: RewindRequest) -> RewindView:
        """Undo the runs of a session that began at a moment or later."""
        order = await self._project.order()
        return await self._undo(runs_since(order, request.session_id, request.since), request)

    async def redo(self, checkpoint_id: str, request: UndoRunRequest) -> RewindView:
        """Redo a run that was undone."""
        checkpoint = await run_sync(self._project.checkpoints.get, checkpoint_id)
        with self._named(request) as progress:
            plan = await self._project.redo(checkpoint)
            if request.dry_run:
                return _view("planned", [checkpoint], plan.files, plan.conflicts)
            _check(plan.files, request.files)
            saved = await self._project.apply(plan, progress)
        await self._publish(saved)
        return _view("completed", [checkpoint], plan.files, plan.conflicts)

    async def _undo(self, runs: Sequence[Checkpoint], request: UndoRunRequest) -> RewindView:
        with self._named(request) as progress:
            plan = await plan_rewind(self._project, runs)
            if request.dry_run:
                return _view("planned", plan.runs, plan.files, plan.conflicts)
            _check(plan.files, request.files)
            progress.total = plan.writes
            done = await apply_rewind(self._project, plan, progress)
        await self._publish(done.saved)
        return _view("completed", plan.runs, plan.files, done.conflicts)

    @contextmanager
    def _named(self, request: UndoRunRequest) -> Generator[SaveProgress]:
        """The progress of an operation, by the name that its client gave it; also while it is planned."""
        progress = SaveProgress(len(request.files))
        if request.operation:
            self._running[request.operation] = progress
        try:
            yield progress
        finally:
            self._running.pop(request.operation, None)

    async def _publish(self, saved: Iterable[SaveResult]) -> None:
        for path in dict.fromkeys(file.path for file in saved):
            await self._registry.publish(await self._files.get(path), "rollback")


def _check(planned: Sequence[FilePlan], seen: Sequence[PlannedRevision]) -> None:
    if {file.path: file.rev for file in planned} != {file.file_path: file.rev for file in seen}:
        raise StaleRevision(CHANGED)


def _view(
    status: str, runs: Sequence[Checkpoint], files: Sequence[FilePlan], conflicts: Sequence[RevertConflict]
) -> RewindView:
    return RewindView(
        status=status,
        checkpoint_ids=tuple(checkpoint.id for checkpoint in runs),
        files=tuple(
            RewindFile(file_path=file.path, rev=file.rev, patch=file.patch, about=file.about)
            for file in files
        ),
        conflicts=tuple(
            RollbackConflict(file_path=each.path, hunk_id=each.hunk, reason=each.reason) for each in conflicts
        ),
    )
