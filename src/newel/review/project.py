"""The runs of agents in a project, and how to undo one.

project = ProjectReview(ledger, workspace)
plan = await project.undo()             # for the user to confirm; nothing has changed yet
saved = await project.apply(plan)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import WorkspaceError
from newel.review import last_run
from newel.review.checkpoints import Checkpoints, FileVersions, RollbackPlan, UnknownCheckpoint
from newel.review.last_run import LastRun
from newel.review.model.file_kinds import Change, described
from newel.review.model.file_lines import Kind
from newel.review.model.file_review import FileReview, ReviewError, root_of
from newel.review.model.history import NothingToUndo, made_by
from newel.review.model.patch import file_patch
from newel.review.revert import restore_intact
from newel.review.save import DiskSync, Saved
from newel.review.serialize import (
    CheckpointFile,
    CheckpointHunk,
    CheckpointView,
    View,
    checkpoint_view,
    is_of,
)
from newel.review.store.ledger import Checkpoint, Ledger
from newel.review.store.schema import LedgerError
from newel.workspace.tracked import TrackedWorkspace


class Refreshed(NamedTuple):
    """``problems`` are error messages by file."""

    reviews: list[FileReview]
    problems: dict[str, str]


class ProjectReview:
    """A project's ledger and its synchronization with the files. ``left_out`` are messages about files that are not covered."""

    def __init__(self, ledger: Ledger, workspace: TrackedWorkspace) -> None:
        self.ledger = ledger
        self.workspace = workspace
        self.left_out: list[str] = []
        self.finished: list[Checkpoint] = []
        """Interrupted rollbacks that were completed when the ledger was opened."""
        self._last_run: LastRun | None = None
        self.saver = DiskSync(ledger, workspace)
        self.checkpoints = Checkpoints(ledger, self.saver)

    async def recover(self) -> None:
        """Complete the saves of killed processes. Raises ``LedgerError``."""
        runs = [intent.id for intent in await anyio.to_thread.run_sync(self.ledger.intents)]
        await self.saver.recover()
        if runs:
            checkpoints = await anyio.to_thread.run_sync(self.ledger.checkpoints_of_runs, runs)
            self.finished = list(checkpoints.values())

    @property
    def last_run(self) -> LastRun | None:
        """The last run that called a tool which may change something. To be set for a ledger in memory."""
        return last_run.load(self.ledger.folder) if self.ledger.folder else self._last_run

    @last_run.setter
    def last_run(self, last: LastRun) -> None:
        self._last_run = last

    async def undo(self, checkpoint: Checkpoint | None = None) -> RollbackPlan:
        """Plan the undo of a run, by default of the last one. Raises ``NothingToUndo`` if nothing of that run is recorded, or left;
        older runs are never undone implicitly.
        """
        if checkpoint is not None:
            return await self._plan_undo(checkpoint, is_rest=False)
        is_rest = False
        for latest in await anyio.to_thread.run_sync(self._latest):
            if latest.is_partial:
                is_rest = True  # the rest of that run is still to be undone
            else:
                return await self._plan_undo(latest, is_rest=is_rest)
        raise NothingToUndo(f"There is nothing to undo in {self.workspace.root}.")

    def _latest(self) -> list[Checkpoint]:
        """The checkpoints from that of the last run on. Raises ``NothingToUndo`` if it has none."""
        checkpoints = self.ledger.checkpoints()
        last = self.last_run
        if last is None or not checkpoints or checkpoints[0].created > last.began:
            return checkpoints
        for at, checkpoint in enumerate(checkpoints):
            if checkpoint.run == last.run:  # an earlier run that was resumed
                return checkpoints[at:]
        if not last.is_recorded:
            raise NothingToUndo(
                f"The last run was not recorded (--ephemeral, or `record = false` in [review] of config.toml) or its record was deleted (newel forget), so it cannot be undone.{_undo_hint(checkpoints[0])}"
            )
        raise NothingToUndo(
            f"No change of the last run is recorded: {last.title or last.run}.{self._not_covered()}{_undo_hint(checkpoints[0])}"
        )

    async def _plan_undo(self, checkpoint: Checkpoint, *, is_rest: bool) -> RollbackPlan:
        await self.refresh(checkpoint)
        if hunks := await anyio.to_thread.run_sync(hunk_ids, self.ledger, checkpoint, is_rest):
            return await self.checkpoints.plan(checkpoint.id, "scoped_selected", hunks)
        name = checkpoint.title or checkpoint.id
        checkpoints = await anyio.to_thread.run_sync(self.ledger.checkpoints)
        before = next((earlier for earlier in checkpoints if earlier.created < checkpoint.created), None)
        hint = _undo_hint(before) if before else ""
        if await anyio.to_thread.run_sync(self._changed_files, checkpoint):
            raise NothingToUndo(
                f"Nothing of this run is left to undo: {name}. Its changes were overwritten since.{hint}"
            )
        raise NothingToUndo(f"No change of this run is recorded: {name}.{self._not_covered()}{hint}")

    def _not_covered(self) -> str:
        return "".join(f" {message}" for message in self.left_out)

    def is_redo_plan(self, plan: RollbackPlan) -> bool:
        """Whether a plan undoes an undo. Blocks."""
        of = self.checkpoints.get(plan.checkpoint)
        return bool(of.about) and not of.is_redo

    def _changed_files(self, checkpoint: Checkpoint) -> bool:
        """Whether a run changed files on the disk."""
        wrote = [
            entry for entry in self.ledger.entries(run=checkpoint.run) if entry.kind in {"record", "rollback"}
        ]
        # An undo that could not write its files was dropped, and has changed nothing.
        dropped = {
            entry.of for path in {entry.path for entry in wrote} for entry in self.ledger.entries(path=path)
        }
        if all(entry.id in dropped for entry in wrote):
            return False
        files = (self.checkpoints.versions(checkpoint, before.path) for before in checkpoint.files)
        return any(file.proposed != file.base for file in files)

    async def refresh(self, checkpoint: Checkpoint) -> Refreshed:
        """Update a run's files from the disk. Raises ``LedgerError``."""
        reviews: list[FileReview] = []
        problems: dict[str, str] = {}
        for before in checkpoint.files:
            try:
                reviews.append(await self.saver.refresh(before.path))
            except LedgerError:
                raise
            except (ReviewError, WorkspaceError) as error:
                problems[before.path] = str(error)
        return Refreshed(reviews, problems)

    async def rollback(self, checkpoint: Checkpoint, hunks: Sequence[str] = ()) -> RollbackPlan:
        """Plan to restore the files of a run, or to undo only some of its hunks."""
        mode = "scoped_selected" if hunks else "hard_all"
        return await self.checkpoints.plan(checkpoint.id, mode, hunks)

    async def find(self, checkpoint_id: str) -> Checkpoint:
        """A checkpoint by its id or a prefix of it. Raises ``UnknownCheckpoint``."""
        matching = partial(self.ledger.checkpoints, prefix=checkpoint_id)
        matches = await anyio.to_thread.run_sync(matching) if checkpoint_id else []
        exact = [match for match in matches if match.id == checkpoint_id]
        if len(exact or matches) == 1:
            return (exact or matches)[0]
        how_many = f"{len(matches)} checkpoints begin with" if matches else "There is no checkpoint"
        raise UnknownCheckpoint(f"{how_many} {checkpoint_id}. `newel checkpoints` lists them.")

    async def apply(self, plan: RollbackPlan) -> list[Saved]:
        """Apply a plan to the files. A file that cannot be written is unchanged, and the undo can be repeated. Raises as
        ``DiskSync.save``.
        """
        saved: list[Saved] = []
        with anyio.CancelScope(shield=True):  # it is completed or dropped, never left halfway
            reviews = await self.checkpoints.rollback(plan, save=True)
            chosen = await anyio.to_thread.run_sync(
                lambda: {review.path: self.checkpoints.restoring_hunks(plan, review) for review in reviews}
            )
            try:
                saved += await self.saver.save(chosen)
            except LedgerError:
                raise  # it is unknown which files were marked as written: `DiskSync.recover` completes the save
            except (ReviewError, WorkspaceError):
                await anyio.to_thread.run_sync(self._drop, chosen)
                await anyio.to_thread.run_sync(self._leave_the_rest, plan)
                await anyio.to_thread.run_sync(self.ledger.end_saving, plan.run)
                raise
            if any(not conflict.hunk for conflict in plan.conflicts):
                await anyio.to_thread.run_sync(self._leave_the_rest, plan)
            await anyio.to_thread.run_sync(self.ledger.end_saving, plan.run)
        return saved

    def _leave_the_rest(self, plan: RollbackPlan) -> None:
        """A file could not be read or written: the next undo completes this one."""
        if own_checkpoint := self.ledger.checkpoint_of_run(plan.run):
            self.ledger.add_checkpoint(msgspec.structs.replace(own_checkpoint, is_partial=True))

    def _drop(self, chosen: dict[str, list[str]]) -> None:
        """Remove hunks that could not be written from the buffers."""
        for path, ids in chosen.items():
            if any(hunk.id in ids for hunk in self.ledger.get(path).hunks):
                # The file changed meanwhile: the hunks stay in review.
                with contextlib.suppress(NothingToUndo):
                    self.ledger.undo(path)


def _undo_hint(checkpoint: Checkpoint) -> str:
    """A hint how to undo a run that is not the last one."""
    name = f" ({checkpoint.title})" if checkpoint.title else ""
    return f" To undo the run before it{name}: `newel undo {checkpoint.id}`."


def hunk_ids(ledger: Ledger, checkpoint: Checkpoint, is_rest: bool = False) -> list[str]:
    """The remaining hunks of a run; none if no hunk can be undone any more. With ``is_rest``, only those that can."""
    restored = restored_hunks(ledger, checkpoint)
    ids: list[str] = []
    can_go = False
    for before in checkpoint.files:
        review = ledger.get(before.path)
        for hunk in review.hunks:
            if hunk.is_shown and (root_of(hunk.id) in restored or is_of(hunk, checkpoint.run)):
                ids.append(hunk.id)
                can_go = True
        applied_ids = {
            applied_hunk.id
            for applied_hunk in review.applied
            if applied_hunk.run == checkpoint.run or root_of(applied_hunk.id) in restored
        }
        if applied_ids and (is_rest or not can_go):
            whole = restore_intact(review, ledger.entries(path=before.path), applied_ids)
            intact = {
                applied_hunk.id
                for applied_hunk in whole.applied
                if applied_hunk.id in applied_ids and applied_hunk.intact
            }
            can_go |= bool(intact)
            applied_ids = intact if is_rest else applied_ids
        ids += [applied_hunk.id for applied_hunk in review.applied if applied_hunk.id in applied_ids]
    return ids if can_go else []


def restored_hunks(ledger: Ledger, checkpoint: Checkpoint) -> set[str]:
    """The original ids of the hunks with which a rollback restored earlier content."""
    restored = made_by([entry for entry in ledger.entries(run=checkpoint.run) if entry.kind == "rollback"])
    return {root_of(hunk_id) for hunk_id in restored}


def view_of(ledger: Ledger, checkpoint: Checkpoint) -> CheckpointView:
    """A checkpoint with the current hunks of its run. Blocks."""
    reviews = [ledger.get(before.path) for before in checkpoint.files]
    return checkpoint_view(checkpoint, reviews, restored_hunks(ledger, checkpoint))


class RunFile(View, frozen=True):
    """The changes of a run in a file, as a unified diff; ``state`` describes their current state. ``kind``,
    ``change`` and ``about`` are those of ``BundleFile``.
    """

    file_path: str
    state: str
    patch: str
    hunks: tuple[CheckpointHunk, ...]
    kind: Kind = "file"
    change: Change = "modified"
    about: str = ""


class RunView(View, frozen=True):
    """A run that changed files, or would; ``files`` are those that differ after it."""

    checkpoint_id: str
    session_id: str
    created_at: str
    title: str
    files: tuple[RunFile, ...]


async def recent_runs(project: ProjectReview, *, limit: int) -> list[RunView]:
    """The latest runs, the last one first, on the files as they are now."""
    checkpoints = await anyio.to_thread.run_sync(partial(project.ledger.checkpoints, limit=max(limit, 0)))
    return [await load_run(project, checkpoint) for checkpoint in checkpoints]


async def load_run(project: ProjectReview, checkpoint: Checkpoint) -> RunView:
    """A run, on the files as they are now."""
    reviews, problems = await project.refresh(checkpoint)
    files = await anyio.to_thread.run_sync(_files, project, checkpoint, reviews, problems)
    return RunView(
        checkpoint_id=checkpoint.id,
        session_id=checkpoint.session,
        created_at=checkpoint.created,
        title=checkpoint.title,
        files=tuple(files),
    )


def _files(
    project: ProjectReview, checkpoint: Checkpoint, reviews: Sequence[FileReview], problems: dict[str, str]
) -> Iterator[RunFile]:
    view = checkpoint_view(checkpoint, reviews, restored_hunks(project.ledger, checkpoint))
    for file in sorted(view.files, key=lambda file: file.file_path):
        versions = project.checkpoints.versions(checkpoint, file.file_path)
        if versions.proposed != versions.base:
            yield RunFile(
                file_path=file.file_path,
                state=problems.get(file.file_path) or _state(versions, file),
                patch=file_patch(file.file_path, versions.base, versions.proposed),
                hunks=file.hunks,
                **described(versions.base, versions.proposed)._asdict(),
            )


def _state(versions: FileVersions, file: CheckpointFile) -> str:
    undecided = sum(hunk.state == "pending" for hunk in file.hunks)
    if undecided:
        return f"{undecided} to decide"
    if versions.current == versions.base:
        return "undone"
    return "" if versions.current == versions.proposed else "changed since"
