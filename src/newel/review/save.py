"""Writes accepted hunks to the disk, and updates the ledger from it.

    sync = DiskSync(ledger, workspace)
    await sync.recover()                                    # once, when a project is opened
    review = await sync.refresh("src/a.py")                 # with the current content of the file
    await sync.save({"src/a.py": ["h_1"]}, revs={"src/a.py": review.rev})

A save first records its intent in the ledger, then writes and marks file by file. After a crash, ``recover`` finishes it. Nothing
is done twice: a file that already has the intended content is only marked as saved.
"""

from __future__ import annotations

import hashlib
import posixpath
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

import anyio
import anyio.to_thread

from newel.agent.errors import StaleFile, WorkspaceError
from newel.agent.messages import new_id
from newel.concurrency import map_concurrently
from newel.review.file_writer import FileWriter, files_at_once
from newel.review.folders import parents, remove_empty
from newel.review.model.file_kinds import has_other_kinds
from newel.review.model.file_lines import is_blob, kind_of, lines_of, text_hash
from newel.review.model.file_review import Conflict, FileReview, ReviewError, StaleRevision
from newel.review.model.rebase import rebased, saved
from newel.review.paths import OutsideProject, check_name, checked_path
from newel.review.save_outcome import SaveFailed, SaveProgress, SaveResult, SaveStopped
from newel.review.save_plans import (
    NotText,
    OverwritesDisk,
    PlannedFile,
    SavePlan,
    checkpoint_of_save,
    failure_message,
    file_of,
    file_of_bytes,
    has_all,
    hunks_to_save,
    independent_groups,
    is_about_file,
    order_writes,
    plan_save,
    removes_folders,
    replaced_folders,
    sort_plans,
)
from newel.review.store.ledger import Checkpoint, Ledger
from newel.review.store.pending_saves import PlannedWrite, SaveIntent
from newel.review.store.schema import LedgerError
from newel.review.undo_order import mark_partly_undone
from newel.workspace.snapshots.tree import is_kept, state_mode
from newel.workspace.tracked import TrackedWorkspace

LARGEST: Final = 32 << 20
"""Larger files cannot be reviewed."""

SMALL: Final = 64 << 10
"""Up to this many bytes, to compute a hash takes less time than to ask a thread for it."""

ATTEMPTS: Final = 20
"""How often a file is read again if another process changes its review meanwhile."""


class NotAFile(ReviewError):
    """The path names a directory or a device."""


class _Stopped(Exception):
    """The user has stopped the save between two files."""


class RefreshResult(NamedTuple):
    """Reviews that were updated from the disk. ``problems`` are error messages by file."""

    reviews: list[FileReview]
    problems: dict[str, str]


class _LedgerEntry(NamedTuple):
    """What the ledger has of a file. ``is_below_link``: a run has replaced a parent folder by a link."""

    review: FileReview
    is_below_link: bool


class DiskSync:
    """Synchronizes files and ledger. Several instances may work on one ledger, also in several processes. Paths are
    those of ``checked_path``. Methods raise ``OutsideProject``, ``NotAFile``, ``NotText``, ``LedgerError`` and
    the errors of the workspace.
    """

    def __init__(self, ledger: Ledger, workspace: TrackedWorkspace) -> None:
        self._ledger = ledger
        self.workspace = workspace
        self._writer = FileWriter(ledger, workspace)
        self.at_once = files_at_once(workspace)

    @property
    def root(self) -> str:
        return self.workspace.root

    # -- from the disk ------------------------------------------------------------------------------

    async def refresh(self, path: str, *, itself: bool = False) -> FileReview:
        """Update a review from the disk: hunks that a change there touches become conflicts, all others stay. ``itself``: do not
        follow a link.
        """
        known = await self._look_up(path)
        return (await self._sync(known, await self._absolute(known, itself=itself), itself=itself))[0]

    async def refresh_all(self, paths: Iterable[str]) -> RefreshResult:
        """Update several reviews. A file that cannot be read is a problem; it does not affect the others. Raises ``LedgerError``."""
        results = dict(await map_concurrently(self._try_refresh, list(dict.fromkeys(paths)), self.at_once))
        return RefreshResult(
            [result for result in results.values() if not isinstance(result, str)],
            {path: result for path, result in results.items() if isinstance(result, str)},
        )

    async def _try_refresh(self, path: str) -> tuple[str, FileReview | str]:
        """The path, with its updated review, or with the reason why the file cannot be read."""
        try:
            return path, await self.refresh(path)
        except LedgerError:
            raise
        except (ReviewError, WorkspaceError) as error:
            return path, str(error)

    async def _sync(
        self, known: _LedgerEntry, where: str, *, itself: bool = False
    ) -> tuple[FileReview, bool]:
        """The updated review of the file at the absolute path ``where``, and whether the disk differed from it."""
        path = known.review.path
        for _ in range(ATTEMPTS):
            disk = await self._read_state(known, where, itself=itself)
            with suppress(StaleRevision):
                return await anyio.to_thread.run_sync(self._compare, known.review, disk)
            known = await self._look_up(path)
        raise StaleRevision(f"{path} keeps changing in other processes. Retry when they are done.")

    def _compare(self, review: FileReview, disk: PlannedFile) -> tuple[FileReview, bool]:
        review = self._update(review, disk)
        if disk.is_like(file_of(review.base)):
            if is_blob(review.base) and disk.data and not self._ledger.has_blob(disk.sha256):
                self._ledger.put_blobs([disk.data])  # an undo of it can then be redone
            return review, False
        lines = lines_of(disk.data, disk.mode) if disk.exists else ()
        if is_blob(lines):
            self._ledger.put_blobs([disk.data])
        changed = self._ledger.change(review.path, "rebase", lambda now: rebased(now, lines), rev=review.rev)
        return changed.review, True

    def _update(self, review: FileReview, disk: PlannedFile) -> FileReview:
        """The review with a save in it that has written the file and not marked it yet: one that is under way elsewhere, or
        that a crash has ended.
        """
        for saving in self._ledger.planned_writes(review.path):
            if saving.after == disk.hash and has_all(review, saving.ids):
                plan = plan_save(review, saving.ids)._replace(saving=saving)
                if plan.after.is_like(disk):
                    return self._mark(plan, rev=review.rev)
        return review

    async def _read_state(self, known: _LedgerEntry, where: str, *, itself: bool = False) -> PlannedFile:
        """The current state of a file on disk, including its bytes. ``where`` is its absolute path."""
        path = known.review.path
        node = None if known.is_below_link else await self.workspace.lstat(where)
        if node is None:
            return PlannedFile(text_hash(()))
        if node.is_file:
            data = await self.workspace.read_bytes(where, size=LARGEST + 1, nofollow=True)
            if len(data) > LARGEST:
                return await self._read_large(known.review, where, stat.S_IMODE(node.mode))
            if len(data) <= SMALL:
                return file_of_bytes(data, stat.S_IMODE(node.mode))
            return await anyio.to_thread.run_sync(file_of_bytes, data, stat.S_IMODE(node.mode))
        if not itself and not has_other_kinds(known.review):
            what = "a directory" if stat.S_ISDIR(node.mode) else "not a regular file"
            raise NotAFile(f"{path} is {what}; only files can be reviewed.")
        if not (is_kept(node.mode) or stat.S_ISDIR(node.mode)):
            raise NotAFile(f"{path} is a socket or a device; these are not reviewed.")
        return file_of_bytes(node.target, state_mode(node.mode))

    async def _read_large(self, review: FileReview, where: str, mode: int) -> PlannedFile:
        """The state of a large file that is as the ledger has it, by its hash: such a change can be undone. Raises ``NotText``."""
        base = file_of(review.base)
        digest, start = hashlib.sha256(), 0
        read = partial(self.workspace.read_bytes, where, size=LARGEST, nofollow=True)
        while base.is_plain and (piece := await read(start=start)):
            await anyio.to_thread.run_sync(digest.update, piece)
            start += len(piece)
        found = PlannedFile(f"sha256:{digest.hexdigest()}", mode)
        if not found.is_like(base):
            raise NotText(f"{review.path} is larger than {LARGEST >> 20} MiB; such files are not reviewed.")
        return found

    async def name_of(self, path: str) -> str:
        """The name of a path in the ledger: that of ``checked_path``, but the path itself for a link under review. Raises
        ``OutsideProject``.
        """
        return await self._name(await self._look_up(path))

    async def _name(self, known: _LedgerEntry, *, itself: bool = False) -> str:
        path = known.review.path
        if known.is_below_link:
            return path  # a link replaces a folder: do not follow it
        if itself or has_other_kinds(known.review):
            # It may be a link itself, to anywhere.
            folder, name = posixpath.split(path)
            return posixpath.join(await checked_path(self.workspace, folder), name) if folder else path
        return await checked_path(self.workspace, path)

    async def _where(self, path: str) -> str:
        """The absolute path of a file. Raises ``OutsideProject``."""
        return await self._absolute(await self._look_up(path))

    async def _absolute(self, known: _LedgerEntry, *, itself: bool = False) -> str:
        """The absolute path of a file. Raises ``OutsideProject`` if a link leads elsewhere."""
        path = known.review.path
        resolved = await self._name(known, itself=itself)
        if resolved != path:
            raise OutsideProject(f"{path} leads to {resolved}. Review the file by that name.")
        return f"{self.workspace.root.rstrip('/')}/{path}"

    async def _look_up(self, path: str) -> _LedgerEntry:
        """Raises ``OutsideProject`` for an invalid path, which is not in the ledger either."""
        check_name(self.workspace.root, path)
        return await anyio.to_thread.run_sync(self._find, path)

    def _find(self, path: str) -> _LedgerEntry:
        """All that is asked of the ledger about a file, in one step of one thread: runs have changed thousands of files."""
        folders = [folder for folder in parents(path) if self._ledger.is_known(folder)]
        is_below_link = any(kind_of(self._ledger.get(folder).base) == "link" for folder in folders)
        return _LedgerEntry(self._ledger.get(path), is_below_link)

    # -- to the disk --------------------------------------------------------------------------------

    async def save(
        self,
        chosen: Mapping[str, Collection[str] | None],
        *,
        revs: Mapping[str, int] | None = None,
        overwrite: Collection[str] = (),
        progress: SaveProgress | None = None,
        undone: Checkpoint | None = None,
    ) -> list[SaveResult]:
        """Write the hunks of each path (None: the accepted ones) to the disk, whatever their state; the others stay in review.
        ``revs`` are the revisions that the caller knows. Hunks that were saved before are skipped, so a repeated call is safe.
        ``overwrite`` are the paths for which the user has confirmed that kept conflicts replace what others wrote on disk. ``undone``
        is the checkpoint of the run that this save undoes.

        First all files are checked. If one differs from its review, the review is updated from the disk, and ``Conflict`` is raised;
        after that, ``StaleRevision``, ``UnknownHunk`` or ``OverwritesDisk``, no file has changed. If a file cannot be written,
        ``SaveFailed`` is raised: its ``saved`` are written, all others are unchanged. A save that has begun to write is not cancelled, but
        can be stopped by its ``progress``, which raises ``SaveStopped``.
        """
        known_reviews: dict[str, FileReview] = {}
        plans: list[SavePlan] = []
        changed: list[str] = []
        for review, ids, is_changed in await map_concurrently(
            self._check, list(chosen.items()), self.at_once
        ):
            known_reviews[review.path] = review
            if is_changed:
                changed.append(review.path)
            else:
                plans += await self._plan(review, ids, (revs or {}).get(review.path))
        if changed:
            raise Conflict(
                f"{', '.join(changed)} changed on disk since the review. Nothing was written; look at the review again."
            )
        if unconfirmed := [
            plan.saving.path for plan in plans if plan.saving.overwrites and plan.saving.path not in overwrite
        ]:
            raise OverwritesDisk(unconfirmed)
        with anyio.CancelScope(shield=True):
            for saved_file in await self._execute(plans, progress or SaveProgress(), undone):
                known_reviews[saved_file.path] = saved_file.review
        counts = {plan.saving.path: len(plan.saving.ids) for plan in plans}
        return [SaveResult.of(known_reviews[path], counts.get(path, 0)) for path in chosen]

    async def _check(self, chosen: tuple[str, Collection[str] | None]) -> tuple[FileReview, list[str], bool]:
        """The review of a file, updated from the disk if a save would write it; its hunks to be saved; whether the disk differed."""
        path, ids = chosen
        known = await self._look_up(path)
        where = await self._absolute(known)
        review, is_changed = known.review, False
        if hunks_to_save(review, ids):
            review, is_changed = await self._sync(known, where)
        return review, hunks_to_save(review, ids) if not is_changed else [], is_changed

    async def _plan(self, review: FileReview, ids: Sequence[str], rev: int | None) -> list[SavePlan]:
        """The plan for a file; none if its hunks have been saved meanwhile."""
        if not ids:
            return []
        if rev is not None and rev != review.rev:
            raise StaleRevision(
                f"{review.path} is at revision {review.rev}, and this save was asked for {rev}. Read the file again and retry."
            )
        plan = plan_save(review, ids)
        if plan.blob:
            await anyio.to_thread.run_sync(self._ledger.blob, plan.blob)  # fail before anything is written
        return [plan]

    async def _execute(
        self, plans: Sequence[SavePlan], progress: SaveProgress, undone: Checkpoint | None
    ) -> list[SaveResult]:
        if not plans:
            return []
        if runs := {run for plan in plans for run in plan.runs}:
            await anyio.to_thread.run_sync(mark_partly_undone, self._ledger, runs)
        plans = sort_plans(plans)
        planned_paths = [plan.saving.path for plan in plans]
        removes, opened = removes_folders(plans), replaced_folders(plans)
        intent = SaveIntent(id=new_id(), files=tuple(plan.saving for plan in plans))
        await anyio.to_thread.run_sync(self._ledger.begin_saving, intent)
        done: dict[str, SaveResult] = {}
        try:
            failed = None
            for group in independent_groups(await self._writer.open_folders(plans, self._where)):
                failed = await self._write_group(group, done, progress) or failed
                if failed and not is_about_file(failed):
                    break
                if removes and not group[0].after.exists:
                    removed = [plan.saving for plan in group]
                    await self._remove_empty_folders(removed, planned_paths, opened, undone=undone)
            if failed:
                raise failed
            await self._writer.shut_folders(plans, self._where)
        except LedgerError:
            raise  # the next process marks what was written
        except _Stopped:
            await self._leave_the_rest(plans, done, undone)
            await anyio.to_thread.run_sync(self._ledger.end_saving, intent.id)
            raise SaveStopped([*done.values()], len(plans)) from None
        except (WorkspaceError, ReviewError) as error:
            await anyio.to_thread.run_sync(self._ledger.end_saving, intent.id)
            if isinstance(error, WorkspaceError):
                written = [done[path] for path in planned_paths if path in done]
                raise SaveFailed(failure_message(error, planned_paths, done), written) from error
            raise
        await self._remove_empty_folders(intent.files, undone=undone)
        await anyio.to_thread.run_sync(self._ledger.end_saving, intent.id)
        return list(done.values())

    async def _leave_the_rest(
        self, plans: Sequence[SavePlan], done: Collection[str], undone: Checkpoint | None
    ) -> None:
        """Leave no trace of files that are not ``done``: folders that were opened for them, and folders that are empty now."""
        left = [plan._replace(after=plan.before) for plan in plans if plan.saving.path not in done]
        written = [plan for plan in plans if plan.saving.path in done]
        with suppress(ReviewError, WorkspaceError):  # the next refresh of the folder reports the problem
            await self._writer.shut_folders([*written, *left] if written else [], self._where)
        await self._remove_empty_folders((plan.saving for plan in written), undone=undone)

    async def _write_group(
        self, plans: Sequence[SavePlan], done: dict[str, SaveResult], progress: SaveProgress
    ) -> WorkspaceError | ReviewError | None:
        """Write files that do not depend on each other at once; after an error the rest one by one, as a full disk may have room for one
        new file at a time. Returns the error of a file that could not be written. Raises ``_Stopped``.
        """
        errors: dict[str, WorkspaceError | ReviewError] = {}

        async def write(plan: SavePlan) -> None:
            try:
                done[plan.saving.path] = await self._write(plan)
                progress.advance()
            except LedgerError:
                raise
            except (WorkspaceError, ReviewError) as error:
                errors.setdefault(plan.saving.path, error)

        async def write_unless_failed(plan: SavePlan) -> None:
            if not errors and not progress.is_stopped:
                await write(plan)

        await map_concurrently(write_unless_failed, plans, self.at_once)
        failed = None
        for plan in plans:
            if plan.saving.path not in done:
                if progress.is_stopped:
                    raise _Stopped
                await write(plan)
            if plan.saving.path not in done:
                failed = errors[plan.saving.path]
                if not is_about_file(failed):
                    break
        return failed

    async def _write(self, plan: SavePlan) -> SaveResult:
        """Write a file as planned, and mark its hunks as saved. Raises ``Conflict`` if the file has changed."""
        path = plan.saving.path
        where = await self._where(path)
        try:
            if not plan.after.is_like(plan.before):
                await self._writer.replace(where, plan)
        except StaleFile as error:
            # Another process may have saved the same.
            if not (await self._read_state(await self._look_up(path), where)).is_like(plan.after):
                await self.refresh(path)
                raise Conflict(
                    f"{path} changed on disk while it was being saved, and was not written. Look at the review again."
                ) from error
        review = await anyio.to_thread.run_sync(self._mark, plan)
        if not plan.after.is_like(file_of(review.base)):  # the hunk was edited meanwhile
            review = await self.refresh(path)
        return SaveResult.of(review, len(plan.saving.ids))

    def _mark(self, plan: SavePlan, *, rev: int | None = None) -> FileReview:
        """Mark the hunks of a written file as saved, unless that was done already."""
        ids, path, run = plan.saving.ids, plan.saving.path, plan.saving.overwrites

        def marked(now: FileReview) -> FileReview:
            # Decisions made meanwhile do not matter; other lines would.
            is_same = has_all(now, ids) and plan_save(now, ids).after.is_like(plan.after)
            return saved(now, ids, run) if is_same else now

        # One transaction: what was overwritten is never marked as saved without its checkpoint. It need not wait for the disk, as the
        # intent is there until all files are: after a power cut, what lacks its mark is marked by ``recover``.
        with self._ledger.batch(flush=False):
            before = self._ledger.get(path)
            result = self._ledger.change(path, "save", marked, rev=rev, hunks=ids, run=run)
            if run and result.entry and any(applied.run == run for applied in result.review.applied):
                self._ledger.add_checkpoint(checkpoint_of_save(self._ledger, run, before))
        return result.review

    async def _remove_empty_folders(
        self,
        savings: Iterable[PlannedWrite],
        excluded: Collection[str] = (),
        opened: AbstractSet[str] = frozenset(),
        *,
        undone: Checkpoint | None = None,
    ) -> None:
        """Remove folders that a run created for files that are gone again, and those in folders to be replaced. Where a run is ``undone``,
        those that others created stay: they were there before it.
        """
        removed = [saving.path for saving in savings if saving.after == text_hash(())]
        if removed:
            checkpoints = [undone] if undone else await anyio.to_thread.run_sync(self._ledger.checkpoints)
            await remove_empty(self.workspace, removed, checkpoints, excluded, opened)

    # -- after a crash ------------------------------------------------------------------------------

    async def recover(self) -> list[SaveResult]:
        """Finish interrupted saves. A file that has changed since, on disk or in its review, is left to the user, and so is one
        that cannot be written: its hunks stay in review.
        """
        done: list[SaveResult] = []
        for intent in await anyio.to_thread.run_sync(self._ledger.intents):
            with anyio.CancelScope(shield=True):
                savings, plans = await anyio.to_thread.run_sync(order_writes, self._ledger, intent)
                paths = [saving.path for saving in savings]
                for saving in savings:
                    try:
                        done += await self._recover_write(saving)
                        if removes_folders(plans):
                            await self._remove_empty_folders([saving], paths, replaced_folders(plans))
                    except LedgerError:
                        raise
                    except (ReviewError, WorkspaceError):  # the next refresh of the file reports the problem
                        continue
                with suppress(ReviewError, WorkspaceError):
                    await self._writer.shut_folders(plans, self._where)
                await self._remove_empty_folders(savings)
                await anyio.to_thread.run_sync(self._ledger.end_saving, intent.id)
        return done

    async def _recover_write(self, saving: PlannedWrite) -> list[SaveResult]:
        if await self._is_between(saving):
            review = await anyio.to_thread.run_sync(self._ledger.get, saving.path)
            plan = plan_save(review, saving.ids)._replace(saving=saving)
            return [await self._write(plan._replace(before=PlannedFile(text_hash(())), blob_before=""))]
        review = await self.refresh(saving.path)
        if review.rev == saving.rev:  # nothing has changed since the save began
            return [await self._write(plan_save(review, saving.ids)._replace(saving=saving))]
        is_saved = {hunk.id for hunk in review.applied}.issuperset(saving.ids)
        return [SaveResult.of(review, len(saving.ids))] if is_saved else []

    async def _is_between(self, saving: PlannedWrite) -> bool:
        """Whether one kind was removed for another that does not exist yet: it takes two steps."""
        known = await self._look_up(saving.path)
        review = known.review
        if review.rev != saving.rev or not has_all(review, saving.ids):
            return False
        disk = await self._read_state(known, await self._absolute(known))
        return plan_save(review, saving.ids).changes_kind and not disk.exists
