"""The runs of agents in a project, and how to undo one.

project = ProjectReview(ledger, workspace)
plan = await project.undo()             # for the user to confirm; nothing has changed yet
saved = await project.apply(plan)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from newel.review.model.file_lines import Kind, is_blob
from newel.review.model.file_review import FileReview, ReviewError, buffer, root_of, stems_from
from newel.review.model.history import HistoryEntry, NothingToUndo, made_by
from newel.review.model.patch import file_patch
from newel.review.revert import WithdrawnHunk, is_version, left_withdrawn, restore_intact, withdrawn_hunks
from newel.review.save import DiskSync, RefreshResult
from newel.review.save_outcome import SaveProgress, SaveResult, SaveStopped
from newel.review.serialize import (
    CheckpointFile,
    CheckpointHunk,
    CheckpointView,
    View,
    checkpoint_view,
    is_of,
)
from newel.review.store.ledger import Checkpoint, FileVersion, Ledger
from newel.review.store.schema import LedgerError
from newel.review.undo_order import UndoOrder, is_undo
from newel.text.format import join_names
from newel.workspace.tracked import TrackedWorkspace


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
        runs = [intent.run or intent.id for intent in await anyio.to_thread.run_sync(self.ledger.intents)]
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
        """Plan the undo of a run: by default of the last one that is not undone, so that undos go further back. Raises ``NothingToUndo``
        if nothing of that run is left, ``LastRunWithoutRecord`` if nothing is recorded; older runs are never undone implicitly. For an undo
        it is planned to redo its run.
        """
        order = await self.order()
        if checkpoint is None:
            checkpoint = await anyio.to_thread.run_sync(self._next_undo, order)
        elif not is_undo(checkpoint):  # perhaps one that was undone and redone
            checkpoint = order.to_undo_of(checkpoint)
        return await self._plan_undo(checkpoint, order)

    async def redo(self, checkpoint: Checkpoint | None = None) -> RollbackPlan:
        """Plan to redo what the undo of a run has undone: by default the latest undo that is not redone, unless there was a run since.
        Raises ``NothingToUndo``.
        """
        order = await self.order()
        if checkpoint is None:
            checkpoint = await anyio.to_thread.run_sync(self._next_redo, order)
        elif not is_undo(now := order.now(checkpoint)):
            raise NothingToUndo(f"This run is not undone: {checkpoint.title or checkpoint.id}.")
        else:
            checkpoint = now
        return await self._plan_undo(checkpoint, order)

    async def hint_for_earlier(self, checkpoint: Checkpoint) -> str:
        """How to undo the run before one of which nothing can be undone, or to redo the one undone before; empty if there is none."""
        verb = "redo" if is_undo(checkpoint) else "undo"
        return _undo_hint((await self.order()).before(checkpoint), verb)

    async def order(self) -> UndoOrder:
        return UndoOrder(await anyio.to_thread.run_sync(self.ledger.checkpoints))

    def _next_undo(self, order: UndoOrder) -> Checkpoint:
        """The run to undo. Raises ``NothingToUndo`` if it is not recorded."""
        runs = order.to_undo
        last = self.last_run
        if last is not None and order.checkpoints and order.checkpoints[0].created <= last.began:
            resumed = next((each for each in order.checkpoints if each.run == last.run), None)
            if resumed is None:
                raise LastRunWithoutRecord(self._without_record(last), next(iter(runs), None))
            if resumed in runs:
                return resumed
        skipped = () if runs else order.skipped
        runs = runs or [each for each in skipped if hunk_ids(self.ledger, each, is_rest=True)]
        if not runs:
            raise NothingToUndo(f"There is nothing to undo in {self.workspace.root}.")
        return runs[0]

    def _without_record(self, last: LastRun) -> str:
        if not last.is_recorded:
            return "The last run was not recorded (--ephemeral, or `record = false` in [review] of config.toml) or its record was deleted (newel forget), so it cannot be undone."
        return f"The last run, “{last.title or last.run}”, has no recorded changes.{self._not_covered()}"

    def _next_redo(self, order: UndoOrder) -> Checkpoint:
        undos = order.to_redo
        last = self.last_run
        if undos and (last is None or undos[0].created > last.began):
            return undos[0]
        latest = next((each for each in order.checkpoints if is_undo(order.now(each))), None)
        if latest is None:
            raise NothingToUndo(f"There is nothing to redo in {self.workspace.root}.")
        raise NothingToUndo(
            f"Nothing was undone since the last run. To redo an earlier one ({latest.about or latest.title}): `newel redo {latest.id}`."
        )

    async def _plan_undo(self, checkpoint: Checkpoint, order: UndoOrder) -> RollbackPlan:
        refreshed = await self.refresh(checkpoint)
        find = partial(self._hunks_to_undo, checkpoint, order, refreshed.reviews)
        if hunks := await anyio.to_thread.run_sync(find):
            plan = await self.checkpoints.plan(checkpoint.id, "scoped_selected", hunks, refreshed)
            stopped = order.stopped(checkpoint)
            return msgspec.structs.replace(plan, run=stopped.run) if stopped else plan
        name = checkpoint.title or checkpoint.id
        if order.is_undone(checkpoint):
            raise NothingToUndo(
                f"The run “{name}” is undone already. To redo it: `newel redo {checkpoint.id}`."
            )
        verb = "redo" if is_undo(checkpoint) else "undo"
        hint = _undo_hint(order.before(checkpoint), verb)
        if changed := await anyio.to_thread.run_sync(self._changed_files, checkpoint):
            nothing = f"Nothing of the run “{name}” is left to {verb}"
            whole = [
                path
                for path, file in changed.items()
                if is_blob(file.proposed) and file.current not in {(), file.base}
            ]
            if whole:
                raise NothingToUndo(
                    f"{nothing}: {join_names(whole)} {'is' if len(whole) == 1 else 'are'} stored as a whole, and changed since. "
                    f"To restore the files as they were before, later changes included: `newel rollback {checkpoint.id}`.{hint}"
                )
            rejected = ", or were pending: `newel keep HUNK` restores one" if verb == "redo" else ""
            raise NothingToUndo(f"{nothing}. Its changes were overwritten since{rejected}.{hint}")
        raise NothingToUndo(f"No change of the run “{name}” is recorded.{self._not_covered()}{hint}")

    def _hunks_to_undo(
        self, checkpoint: Checkpoint, order: UndoOrder, reviews: Iterable[FileReview]
    ) -> list[str]:
        is_skipped = any(skipped.id == checkpoint.id for skipped in order.skipped)
        if is_skipped and (rest := hunk_ids(self.ledger, checkpoint, is_rest=True, reviews=reviews)):
            return rest
        return hunk_ids(self.ledger, checkpoint, order.is_partly_rolled_back(checkpoint), reviews)

    def _not_covered(self) -> str:
        return "".join(f" {message}" for message in self.left_out)

    def is_redo_plan(self, plan: RollbackPlan) -> bool:
        """Whether a plan undoes an undo. Blocks."""
        return is_undo(self.checkpoints.get(plan.checkpoint))

    def _changed_files(self, checkpoint: Checkpoint) -> dict[str, FileVersions]:
        """The files that a run changed on disk, by their paths."""
        wrote = [
            entry
            for entry in self.ledger.entries(run=checkpoint.run)
            if entry.kind in {"record", "rollback", "save"}
        ]
        # An undo that could not write its files was dropped, and has changed nothing.
        dropped = {
            entry.of for path in {entry.path for entry in wrote} for entry in self.ledger.entries(path=path)
        }
        if all(entry.id in dropped for entry in wrote):
            return {}
        versions = partial(self.checkpoints.versions, checkpoint)
        files = {before.path: versions(before.path) for before in checkpoint.files}
        return {path: file for path, file in files.items() if file.proposed != file.base}

    async def refresh(self, *checkpoints: Checkpoint) -> RefreshResult:
        """Update the files of runs from the disk. Raises ``LedgerError``."""
        return await self.saver.refresh_all(
            before.path for checkpoint in checkpoints for before in checkpoint.files
        )

    async def rollback(self, checkpoint: Checkpoint, hunks: Sequence[str] = ()) -> RollbackPlan:
        """Plan to restore the files of a run, or to undo only some of its hunks."""
        mode = "scoped_selected" if hunks else "hard_all"
        return await self.checkpoints.plan(checkpoint.id, mode, hunks)

    async def find(self, checkpoint_id: str) -> Checkpoint:
        """A checkpoint by its id, a prefix of it, or its number in the list, where 1 is the latest. Raises ``UnknownCheckpoint``."""
        if checkpoint_id.isdecimal() and int(checkpoint_id):
            number = int(checkpoint_id)
            listed = await anyio.to_thread.run_sync(partial(self.ledger.checkpoints, limit=number))
            if len(listed) == number:
                return listed[-1]
        matching = partial(self.ledger.checkpoints, prefix=checkpoint_id)
        matches = await anyio.to_thread.run_sync(matching) if checkpoint_id else []
        exact = [match for match in matches if match.id == checkpoint_id]
        if len(exact or matches) == 1:
            return (exact or matches)[0]
        how_many = f"{len(matches)} checkpoints begin with" if matches else "There is no checkpoint"
        raise UnknownCheckpoint(f"{how_many} {checkpoint_id}. `newel checkpoints` lists them.")

    async def apply(self, plan: RollbackPlan, progress: SaveProgress | None = None) -> list[SaveResult]:
        """Apply a plan to the files. A file that cannot be written is unchanged, and the undo can be repeated, which completes one that was
        stopped by its ``progress``. Raises as ``DiskSync.save``.
        """
        saved: list[SaveResult] = []
        undone = None
        if plan.mode != "hard_all":  # which undoes later runs, too
            undone = await anyio.to_thread.run_sync(self.checkpoints.get, plan.checkpoint)
        with anyio.CancelScope(shield=True):  # it is completed or dropped, never left halfway
            reviews = await self.checkpoints.rollback(plan, save=True)
            chosen = await anyio.to_thread.run_sync(
                lambda: {review.path: self.checkpoints.restoring_hunks(plan, review) for review in reviews}
            )
            try:
                saved += await self.saver.save(chosen, progress=progress, undone=undone)
            except LedgerError:
                raise  # it is unknown which files were marked as written: `DiskSync.recover` completes the save
            except (ReviewError, WorkspaceError) as error:
                await anyio.to_thread.run_sync(self._drop, chosen)
                await anyio.to_thread.run_sync(
                    partial(self._leave_the_rest, plan, is_stopped=isinstance(error, SaveStopped))
                )
                await anyio.to_thread.run_sync(self.ledger.end_saving, plan.intent)
                raise
            await anyio.to_thread.run_sync(self._mark_partial, plan)
            await anyio.to_thread.run_sync(self.ledger.end_saving, plan.intent)
        return saved

    def _mark_partial(self, plan: RollbackPlan) -> None:
        """Note that a part was left which an undo can undo, or a file that could not be read: the next undo is about the same run."""
        is_partial = any(not conflict.hunk for conflict in plan.conflicts)
        if plan.mode == "scoped_selected" and not is_partial:
            left = hunk_ids(self.ledger, self.checkpoints.get(plan.checkpoint), is_rest=True)
            is_partial = not {conflict.hunk for conflict in plan.conflicts}.issuperset(left)
        if is_partial:
            self._leave_the_rest(plan)
        elif plan.conflicts and (own_checkpoint := self.ledger.checkpoint_of_run(plan.run)):
            self.ledger.add_checkpoint(msgspec.structs.replace(own_checkpoint, has_skipped=True))

    def _leave_the_rest(self, plan: RollbackPlan, *, is_stopped: bool = False) -> None:
        """A file could not be read or written, or the user stopped: the next undo completes this one."""
        if own_checkpoint := self.ledger.checkpoint_of_run(plan.run):
            left = msgspec.structs.replace(own_checkpoint, is_partial=True, is_stopped=is_stopped)
            self.ledger.add_checkpoint(left)

    def _drop(self, chosen: dict[str, list[str]]) -> None:
        """Remove hunks that could not be written from the buffers."""
        with self.ledger.batch():
            for path, ids in chosen.items():
                if any(hunk.id in ids for hunk in self.ledger.get(path).hunks):
                    # The file changed meanwhile: the hunks stay in review.
                    with contextlib.suppress(NothingToUndo):
                        self.ledger.undo(path)


class LastRunWithoutRecord(NothingToUndo):
    """Nothing is recorded of the last run; ``earlier`` is the run before it that could be undone."""

    def __init__(self, reason: str, earlier: Checkpoint | None) -> None:
        super().__init__(reason + _undo_hint(earlier))
        self.reason = reason
        self.earlier = earlier


def _undo_hint(checkpoint: Checkpoint | None, verb: str = "undo") -> str:
    """A hint how to undo a run that is not the last one; empty without one."""
    if checkpoint is None:
        return ""
    about = checkpoint.about or checkpoint.title
    return f" To {verb} the run before it{f' ({about})' if about else ''}: `newel {verb} {checkpoint.id}`."


def hunk_ids(
    ledger: Ledger, checkpoint: Checkpoint, is_rest: bool = False, reviews: Iterable[FileReview] = ()
) -> list[str]:
    """The remaining hunks of a run, but in files that are as before it; none if no hunk can be undone any more. With ``is_rest``, only
    those that can. ``reviews`` are those of its files that are known. Blocks.
    """
    of_rollback = rollback_hunks(ledger, checkpoint)
    known = {review.path: review for review in reviews}
    ids: list[str] = []
    can_go = False
    for before in checkpoint.files:
        review = known.get(before.path) or ledger.get(before.path)
        shown, applied_ids = hunks_in(review, before, checkpoint.run, of_rollback)
        can_go |= bool(shown)
        ids += shown
        if applied_ids and (is_rest or not can_go):
            intact = intact_hunks(review, partial(ledger.entries, path=before.path), applied_ids)
            can_go |= bool(intact)
            applied_ids = intact if is_rest else applied_ids
        ids += applied_ids
    return ids if can_go else []


def intact_hunks(
    review: FileReview, read: Callable[[], Sequence[HistoryEntry]], applied_ids: Sequence[str]
) -> list[str]:
    """Those of the saved hunks that can be undone; ``read`` reads the file's history."""
    wanted = set(applied_ids)
    whole = restore_intact(review, read, wanted)
    return [hunk.id for hunk in whole.applied if hunk.id in wanted and hunk.intact]


class RollbackHunks(NamedTuple):
    """The hunks of a rollback, none for another run: the original ids of those with which it restored earlier content, and the proposals
    that it withdrew, or proposed again.
    """

    restored: set[str]
    withdrawn: Mapping[str, WithdrawnHunk]


def rollback_hunks(ledger: Ledger, checkpoint: Checkpoint) -> RollbackHunks:
    """Blocks."""
    rollbacks = ledger.entries(run=checkpoint.run, kind="rollback")
    return RollbackHunks({root_of(hunk_id) for hunk_id in made_by(rollbacks)}, withdrawn_hunks(rollbacks))


def hunks_in(
    review: FileReview, before: FileVersion, run: str, of_rollback: RollbackHunks
) -> tuple[list[str], list[str]]:
    """The hunks of a run in a file: those in review that can be undone, and those that were saved; none if the file is as ``before`` the
    run. ``of_rollback`` are those of the run.
    """
    again = {hunk.id for hunk in left_withdrawn(review, of_rollback.withdrawn)}
    in_review = [
        hunk.id
        for hunk in review.hunks
        if hunk.id in again
        or (hunk.is_shown and (is_of(hunk, run) or stems_from(hunk.id, of_rollback.restored)))
    ]
    applied = [
        applied_hunk.id
        for applied_hunk in review.applied
        if applied_hunk.run == run or stems_from(applied_hunk.id, of_rollback.restored)
    ]
    if (in_review or applied) and is_version(buffer(review), before):
        return [], []
    return in_review, applied


def view_of(ledger: Ledger, checkpoint: Checkpoint) -> CheckpointView:
    """A checkpoint with the current hunks of its run. Blocks."""
    reviews = [ledger.get(before.path) for before in checkpoint.files]
    return checkpoint_view(checkpoint, reviews, rollback_hunks(ledger, checkpoint).restored)


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


async def load_run(
    project: ProjectReview,
    checkpoint: Checkpoint,
    refreshed: RefreshResult | None = None,
    *,
    reverse: bool = True,
) -> RunView:
    """A run, on the files as they are now, or as they were ``refreshed``. Without ``reverse``, the reverse patches of its hunks are
    empty.
    """
    refreshed = refreshed or await project.refresh(checkpoint)
    files = await anyio.to_thread.run_sync(
        lambda: [*map(_run_file, differing_files(project, checkpoint, refreshed, reverse=reverse))]
    )
    return RunView(
        checkpoint_id=checkpoint.id,
        session_id=checkpoint.session,
        created_at=checkpoint.created,
        title=checkpoint.title,
        files=tuple(files),
    )


class DifferingFile(NamedTuple):
    """A file that differs after a run, with the hunks of the run in it; ``state`` is that of ``RunFile``."""

    path: str
    state: str
    versions: FileVersions
    hunks: tuple[CheckpointHunk, ...]


def differing_files(
    project: ProjectReview, checkpoint: Checkpoint, refreshed: RefreshResult, *, reverse: bool = False
) -> Iterator[DifferingFile]:
    """The files that differ after a run, sorted; see ``load_run``. Blocks."""
    reviews, problems = refreshed
    restored = rollback_hunks(project.ledger, checkpoint).restored
    view = checkpoint_view(checkpoint, reviews, restored, reverse=reverse)
    by_path = {review.path: review for review in reviews}
    for file in sorted(view.files, key=lambda file: file.file_path):
        path = file.file_path
        versions = project.checkpoints.versions(checkpoint, path, by_path.get(path))
        if versions.proposed != versions.base:
            yield DifferingFile(path, problems.get(path) or _state(versions, file), versions, file.hunks)


def _run_file(file: DifferingFile) -> RunFile:
    base, proposed = file.versions.base, file.versions.proposed
    return RunFile(
        file_path=file.path,
        state=file.state,
        patch=file_patch(file.path, base, proposed),
        hunks=file.hunks,
        **described(base, proposed)._asdict(),
    )


def _state(versions: FileVersions, file: CheckpointFile) -> str:
    undecided = sum(hunk.state == "pending" for hunk in file.hunks)
    if undecided:
        return f"{undecided} to decide"
    if versions.current == versions.base:
        return "undone"
    return "" if versions.current == versions.proposed else "changed since"
