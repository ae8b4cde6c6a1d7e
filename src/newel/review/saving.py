"""What was kept goes to the disk, and what the disk has becomes the base.

    saver = Saver(ledger, workspace)
    await saver.recover()                                   # once, when a project is opened
    review = await saver.refresh("src/a.py")                # what the disk has now
    await saver.save({"src/a.py": ["h_1"]}, revs={"src/a.py": review.rev})

A save says in the ledger what it is about to do, then writes and marks file by file. What a crash leaves is finished by
``recover``, and nothing is done twice: whoever finds on the disk what a save was to make of a file marks it as saved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import anyio
import anyio.to_thread

from newel.agent.errors import StaleFile, WorkspaceError
from newel.agent.messages import Wire, new_id
from newel.review.bases import kept, rebased, saved
from newel.review.folders import clear
from newel.review.ledger import (
    Conflict,
    FileReview,
    Lines,
    ReviewError,
    StaleRevision,
    render,
)
from newel.review.paths import OutsideProject, checked_path
from newel.review.store import Intent, Ledger, LedgerError, Saving
from newel.review.text import content_of, head_of, is_blob, lines_of, text_hash
from newel.workspace.port import ABSENT, Workspace

LARGEST: Final = 32 << 20
"""Bytes of a file that can be under review."""

ATTEMPTS: Final = 20
"""How often a file is looked at anew when somebody else changes its review meanwhile."""


class NotAFile(ReviewError):
    """There is a directory or a device where a file should be."""


class NotText(ReviewError):
    """The file is too large to be reviewed, or would hold what no text can."""


class SaveFailed(ReviewError):
    """A file could not be written, and stays as it was. ``saved`` are those of the same save that were written before."""

    def __init__(self, message: str, saved: Sequence[Saved] = ()) -> None:
        super().__init__(message)
        self.saved = tuple(saved)


class Saved(Wire, frozen=True, kw_only=True):
    """What a save did to a file: hunks that were written, and hunks that are left in the review, the rejected included."""

    path: str
    applied: int
    left: int
    review: FileReview


class _File(NamedTuple):
    """A file as it is or should be: its hash as ``text_hash`` writes it, and its permission bits; no file has none of
    them. ``data`` is empty where the bytes are a blob of the ledger.
    """

    hash: str
    mode: int = 0
    data: bytes = b""

    def is_like(self, other: _File) -> bool:
        return self[:2] == other[:2]

    @property
    def sha256(self) -> str:
        """The hash as the workspace wants it."""
        return self.hash.removeprefix("sha256:") if self.exists else ABSENT

    @property
    def exists(self) -> bool:
        return self.hash != text_hash(())


def _file(lines: Lines) -> _File:
    """The file that lines make."""
    content = content_of(lines)
    return _File(text_hash(lines), content.mode & 0o777, content.data) if content else _File(text_hash(()))


class _Plan(NamedTuple):
    """A file that is about to be saved: what was there, and what will be. ``blob`` is the hash of bytes in the ledger."""

    saving: Saving
    before: _File
    after: _File
    blob: str


def _plan(review: FileReview, ids: Sequence[str]) -> _Plan:
    """Raises ``NotText``."""
    lines = render(review.base, [hunk for hunk in review.hunks if hunk.id in ids])
    body = lines[1:] if head_of(lines) is not None else lines
    if any("\0" in line for line in body) and not (len(body) == 1 and is_blob(body)):
        raise NotText(
            f"{review.path} would hold a NUL, or a text and other bytes at once. Keep other hunks of it, or reject these."
        )
    before, after = _file(review.base), _file(lines)
    saving = Saving(path=review.path, rev=review.rev, ids=tuple(ids), before=before.hash, after=after.hash)
    content = content_of(lines)
    return _Plan(saving, before, after, content.blob if content else "")


def saving_of(review: FileReview, ids: Sequence[str]) -> Saving:
    """What an intent says of hunks that are about to be saved. Raises ``NotText``."""
    return _plan(review, ids).saving


def _has_all(review: FileReview, ids: Collection[str]) -> bool:
    return {hunk.id for hunk in review.hunks}.issuperset(ids)


def _chosen(review: FileReview, ids: Collection[str] | None) -> list[str]:
    """The hunks to save, in their order; one that was saved before is none of them. Raises ``UnknownHunk``."""
    if ids is None:
        return [hunk.id for hunk in kept(review)]
    done = {one.id for one in review.applied}
    wanted = set(ids)
    for name in sorted(wanted - done):
        review.hunk(name)
    return [hunk.id for hunk in review.hunks if hunk.id in wanted]


class Saver:
    """Brings files and ledger into agreement. Several may work on one ledger, in several processes.

    Paths are those of ``checked_path``. Its methods raise ``OutsideProject``, ``NotAFile``, ``NotText``, ``LedgerError`` and
    what the workspace raises.
    """

    def __init__(self, ledger: Ledger, workspace: Workspace) -> None:
        self._ledger = ledger
        self.workspace = workspace

    @property
    def root(self) -> str:
        return self.workspace.root

    # -- from the disk ------------------------------------------------------------------------------

    async def refresh(self, path: str) -> FileReview:
        """Take up what the disk has: hunks that a change there touches are conflicts then, all others stay as they are."""
        return (await self._taken_up(path))[0]

    async def _taken_up(self, path: str) -> tuple[FileReview, bool]:
        """The review, and whether the disk was not as it says."""
        await self._where(path)  # what is no path is no name in the ledger either
        for _ in range(ATTEMPTS):
            review = await anyio.to_thread.run_sync(self._ledger.get, path)
            disk = await self._look(path)
            with suppress(StaleRevision):
                return await anyio.to_thread.run_sync(self._compared, review, disk)
        raise StaleRevision(f"{path} is changed again and again by others. Try again when they are done.")

    def _compared(self, review: FileReview, disk: _File) -> tuple[FileReview, bool]:
        review = self._settled(review, disk)
        if disk.is_like(_file(review.base)):
            return review, False
        lines = lines_of(disk.data, disk.mode) if disk.exists else ()
        if is_blob(lines):
            self._ledger.put_blobs([disk.data])
        changed = self._ledger.change(review.path, "rebase", lambda now: rebased(now, lines), rev=review.rev)
        return changed.review, True

    def _settled(self, review: FileReview, disk: _File) -> FileReview:
        """The review with a save in it that has written the file and not marked it yet: one that is under way elsewhere, or
        that a crash has ended.
        """
        for intent in self._ledger.intents():
            for saving in intent.files:
                if saving.path == review.path and saving.after == disk.hash and _has_all(review, saving.ids):
                    plan = _plan(review, saving.ids)
                    if plan.after.is_like(disk):
                        return self._mark(plan, rev=review.rev)
        return review

    async def _look(self, path: str) -> _File:
        """A file as it is on the disk, its bytes included."""
        where = await self._where(path)
        found = await self.workspace.stat(where)
        if found is None:
            return _File(text_hash(()))
        if found.kind != "file":
            what = "a directory" if found.kind == "directory" else "no regular file"
            raise NotAFile(f"{path} is {what}; only files can be reviewed.")
        data = await self.workspace.read_bytes(where, size=LARGEST + 1)
        if len(data) > LARGEST:
            raise NotText(f"{path} is larger than {LARGEST >> 20} MiB; such files are not reviewed.")
        return await anyio.to_thread.run_sync(_read, data, found.mode & 0o777)

    async def _where(self, path: str) -> str:
        """The absolute path of a file, by which it still is the one that was reviewed."""
        root = self.workspace.root
        name = await checked_path(self.workspace, path)
        if name != path:
            raise OutsideProject(f"{path} leads to {name}. Review the file by that name.")
        return f"{root.rstrip('/')}/{path}"

    # -- to the disk --------------------------------------------------------------------------------

    async def save(
        self, chosen: Mapping[str, Collection[str] | None], *, revs: Mapping[str, int] | None = None
    ) -> list[Saved]:
        """Write the hunks of each path (None: those that were kept) to the disk, whatever their state; the others stay in
        review. ``revs`` are the revisions that the caller has seen. Hunks that were saved before are passed over, so to ask
        twice for the same saves once.

        First all files are checked. If one is not on the disk as the review says, its review takes up what is there, and
        ``Conflict`` is raised; ``StaleRevision``, ``UnknownHunk`` likewise: then no file has been changed. If a file cannot
        be written, ``SaveFailed`` is raised: those before it are saved, it and those behind it stay as they were. A save
        that has begun to write is not cancelled.
        """
        known: dict[str, FileReview] = {}
        plans: list[_Plan] = []
        changed: list[str] = []
        for path, ids in chosen.items():
            await self._where(path)
            review = await anyio.to_thread.run_sync(self._ledger.get, path)
            if _chosen(review, ids):
                review, is_changed = await self._taken_up(path)
                if is_changed:
                    changed.append(path)
                    continue
                plans += await self._planned(review, _chosen(review, ids), (revs or {}).get(path))
            known[path] = review
        if changed:
            raise Conflict(
                f"{', '.join(changed)} changed on the disk since the review. Nothing was written; look at the review anew."
            )
        with anyio.CancelScope(shield=True):
            for one in await self._carried_out(plans):
                known[one.path] = one.review
        counts = {plan.saving.path: len(plan.saving.ids) for plan in plans}
        return [_saved(known[path], counts.get(path, 0)) for path in chosen]

    async def _planned(self, review: FileReview, ids: Sequence[str], rev: int | None) -> list[_Plan]:
        """How to save a file; nothing if its hunks have been saved in the meantime."""
        if not ids:
            return []
        if rev is not None and rev != review.rev:
            raise StaleRevision(
                f"{review.path} is at revision {review.rev}, and this save was asked for {rev}. Read it anew and try again."
            )
        plan = _plan(review, ids)
        if plan.blob:
            await anyio.to_thread.run_sync(self._ledger.blob, plan.blob)  # it is there, or nothing is begun
        return [plan]

    async def _carried_out(self, plans: Sequence[_Plan]) -> list[Saved]:
        if not plans:
            return []
        intent = Intent(id=new_id(), files=tuple(plan.saving for plan in plans))
        await anyio.to_thread.run_sync(self._ledger.begin_saving, intent)
        done: list[Saved] = []
        try:
            for plan in plans:
                done += [await self._write(plan)]  # also what was done before an error counts
        except LedgerError:
            raise  # what was written and not marked is found by the next who looks
        except (WorkspaceError, ReviewError) as error:
            await anyio.to_thread.run_sync(self._ledger.end_saving, intent.id)
            if isinstance(error, WorkspaceError):
                raise SaveFailed(_in_words(error, plans, done), done) from error
            raise
        await self._clear(intent)
        await anyio.to_thread.run_sync(self._ledger.end_saving, intent.id)
        return done

    async def _write(self, plan: _Plan) -> Saved:
        """Make a file what the plan says, and mark its hunks as saved. Raises ``Conflict`` if it is not as it was."""
        path = plan.saving.path
        where = await self._where(path)
        try:
            if not plan.after.is_like(plan.before):
                await self._replace(where, plan)
        except StaleFile as error:
            # Another process that saves the same may have been faster.
            if not (await self._look(path)).is_like(plan.after):
                await self.refresh(path)
                raise Conflict(
                    f"{path} changed on the disk while it was being saved, and was not written. Look at the review anew."
                ) from error
        review = await anyio.to_thread.run_sync(self._mark, plan)
        if not plan.after.is_like(_file(review.base)):  # somebody wrote into the hunk meanwhile
            review = await self.refresh(path)
        return _saved(review, len(plan.saving.ids))

    async def _replace(self, where: str, plan: _Plan) -> None:
        before, after = plan.before, plan.after
        if not after.exists:
            await self.workspace.remove(where, expect=before.sha256)
            return
        data = await anyio.to_thread.run_sync(self._ledger.blob, plan.blob) if plan.blob else after.data
        mode = None if before.exists and before.mode == after.mode else after.mode
        await self.workspace.write_bytes(where, data, expect=before.sha256, mode=mode)

    def _mark(self, plan: _Plan, *, rev: int | None = None) -> FileReview:
        """Put down that a file has been written; nothing where that was done already."""
        ids = plan.saving.ids

        def marked(now: FileReview) -> FileReview:
            # What was decided meanwhile changes nothing in what was written; other lines would.
            is_same = _has_all(now, ids) and _plan(now, ids).after.is_like(plan.after)
            return saved(now, ids) if is_same else now

        return self._ledger.change(plan.saving.path, "save", marked, rev=rev, hunks=ids).review

    async def _clear(self, intent: Intent) -> None:
        """Remove the folders that a run made for files that are gone again."""
        removed = [saving.path for saving in intent.files if saving.after == text_hash(())]
        if removed:
            checkpoints = await anyio.to_thread.run_sync(self._ledger.checkpoints)
            await clear(self.workspace, removed, checkpoints)

    # -- after a crash ------------------------------------------------------------------------------

    async def recover(self) -> list[Saved]:
        """Finish the saves that were begun and not ended. A file that has changed since, on the disk or in its review, is
        left to the person, and so is one that cannot be written: its hunks are in review as before.
        """
        done: list[Saved] = []
        for intent in await anyio.to_thread.run_sync(self._ledger.intents):
            with anyio.CancelScope(shield=True):
                for saving in intent.files:
                    try:
                        done += await self._recovered(saving)
                    except LedgerError:
                        raise
                    except (ReviewError, WorkspaceError):
                        continue  # the next look at the file says what is wrong with it
                await self._clear(intent)
                await anyio.to_thread.run_sync(self._ledger.end_saving, intent.id)
        return done

    async def _recovered(self, saving: Saving) -> list[Saved]:
        review, _ = await self._taken_up(saving.path)
        if review.rev == saving.rev:  # all is as it was when the save began
            return [await self._write(_plan(review, saving.ids))]
        is_saved = {one.id for one in review.applied}.issuperset(saving.ids)
        return [_saved(review, len(saving.ids))] if is_saved else []


def _read(data: bytes, mode: int) -> _File:
    import hashlib

    return _File(f"sha256:{hashlib.sha256(data).hexdigest()}", mode, data)


def _saved(review: FileReview, applied: int) -> Saved:
    return Saved(path=review.path, applied=applied, left=len(review.hunks), review=review)


def _in_words(error: WorkspaceError, plans: Sequence[_Plan], done: Sequence[Saved]) -> str:
    there = ", ".join(one.path for one in done)
    left = ", ".join(plan.saving.path for plan in plans[len(done) :])
    return f"{error} Not saved: {left}." + (f" Saved: {there}." if there else "")
