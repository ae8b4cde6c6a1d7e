"""Plans of a save: what it does to each file, and in which order."""

from __future__ import annotations

import errno
import hashlib
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from newel.agent.messages import new_id, now
from newel.review.folders import parents
from newel.review.model.file_lines import content_of, head_of, is_blob, text_hash
from newel.review.model.file_review import FileReview, Lines, ReviewError, render
from newel.review.model.rebase import kept
from newel.review.store.ledger import Checkpoint, FileVersion, Ledger
from newel.review.store.pending_saves import PlannedWrite, SaveIntent
from newel.workspace.port import ABSENT, FileNode

ENTERED: Final = stat.S_IRWXU
"""The bits that let the owner of a folder change its entries."""

_IN_THE_WAY: Final = {errno.EACCES, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EPERM}


class NotText(ReviewError):
    """The file is too large to be reviewed, or would not be valid text."""


class OverwritesDisk(ReviewError):
    """A save would replace lines that were changed on disk since they were proposed, and the user has not confirmed that."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(
            f"{', '.join(paths)} changed on disk where you kept a conflict. Nothing was written; confirm to overwrite "
            f"{'its current lines' if len(paths) == 1 else 'their current lines'}."
        )


class PlannedFile(NamedTuple):
    """A file as it is or should be: its ``text_hash`` and mode, both empty for no file. Other kinds have their kind
    in the mode, and a link its target as ``data``. ``data`` is empty if the content is a blob of the ledger.
    """

    hash: str
    mode: int = 0
    data: bytes = b""

    def is_like(self, other: PlannedFile) -> bool:
        return self[:2] == other[:2]

    @property
    def sha256(self) -> str:
        """The hash in the form that the workspace expects."""
        return self.hash.removeprefix("sha256:") if self.exists else ABSENT

    @property
    def exists(self) -> bool:
        return self.hash != text_hash(())

    @property
    def is_plain(self) -> bool:
        """Whether it is a regular file."""
        return self.exists and not stat.S_IFMT(self.mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_shut(self) -> bool:
        """Whether it is a folder whose entries the owner cannot change."""
        return self.is_folder and self.mode & ENTERED != ENTERED

    def opened(self) -> PlannedFile:
        """A folder with the permissions to change its entries; a file unchanged."""
        return self._replace(mode=self.mode | ENTERED) if self.is_folder else self

    def node(self, target: bytes) -> FileNode | None:
        """In the form that ``TrackedWorkspace.become`` expects."""
        return FileNode(self.mode, target if stat.S_ISLNK(self.mode) else b"") if self.exists else None


def file_of(lines: Lines) -> PlannedFile:
    """The file that lines make."""
    content = content_of(lines)
    return (
        PlannedFile(text_hash(lines), content.mode, content.data) if content else PlannedFile(text_hash(()))
    )


def file_of_bytes(data: bytes, mode: int) -> PlannedFile:
    return PlannedFile(f"sha256:{hashlib.sha256(data).hexdigest()}", mode, data)


class SavePlan(NamedTuple):
    """A file to be saved, before and after. ``blob`` is the hash of content in the ledger. ``is_ours``: a recorded change created the
    file, or gave it its mode. ``runs`` are those that proposed what is saved.
    """

    saving: PlannedWrite
    before: PlannedFile
    after: PlannedFile
    blob: str
    blob_before: str
    is_ours: bool
    runs: frozenset[str]

    @property
    def must_unlock(self) -> bool:
        """Whether the file is write-protected by a change that is undone now. A file that the user has protected stays."""
        before, after = self.before, self.after
        is_locked = before.is_plain and not before.mode & stat.S_IWUSR
        return is_locked and self.is_ours and before.mode != after.mode and before.hash != after.hash

    @property
    def changes_kind(self) -> bool:
        before, after = self.before, self.after
        return before.exists and after.exists and stat.S_IFMT(before.mode) != stat.S_IFMT(after.mode)


def plan_save(review: FileReview, ids: Sequence[str]) -> SavePlan:
    """Raises ``NotText``."""
    hunks = [hunk for hunk in review.hunks if hunk.id in ids]
    lines = render(review.base, hunks)
    body = lines[1:] if head_of(lines) is not None else lines
    if any("\0" in line for line in body) and not (len(body) == 1 and is_blob(body)):
        raise NotText(
            f"{review.path} would contain a NUL, or text mixed with binary data. Keep other hunks of it, or reject these."
        )
    before, after = file_of(review.base), file_of(lines)
    saving = PlannedWrite(
        path=review.path,
        rev=review.rev,
        ids=tuple(ids),
        before=before.hash,
        after=after.hash,
        overwrites=f"save_{new_id()[:16]}" if overwrites(review, ids) else "",
    )
    content = content_of(lines)
    current = content_of(review.base)
    is_ours = any(applied_hunk.a == 0 for applied_hunk in review.applied)
    return SavePlan(
        saving=saving,
        before=before,
        after=after,
        blob=content.blob if content else "",
        blob_before=current.blob if current else "",
        is_ours=is_ours,
        runs=frozenset(layer.run for hunk in hunks for layer in hunk.layers if layer.run),
    )


def hunks_to_save(review: FileReview, ids: Collection[str] | None) -> list[str]:
    """The hunks that a save writes, in their order: ``ids``, without those saved before; None: the accepted ones. Raises
    ``UnknownHunk``.
    """
    if ids is None:
        return [hunk.id for hunk in kept(review)]
    done = {applied_hunk.id for applied_hunk in review.applied}
    requested = set(ids)
    for name in sorted(requested - done):
        review.hunk(name)
    return [hunk.id for hunk in review.hunks if hunk.id in requested]


def overwrites(review: FileReview, ids: Collection[str]) -> bool:
    """Whether hunks replace lines that another program has written since they were proposed."""
    return any(hunk.conflict for hunk in review.hunks if hunk.id in ids)


def file_version(ledger: Ledger, path: str, lines: Lines) -> FileVersion:
    """A file with these lines, as a checkpoint has it; its content is put into the ledger."""
    content = content_of(lines)
    if content is None:
        return FileVersion(path=path, blob="", mode=0)
    blob = content.blob or ledger.put_blobs([content.data])[0]
    return FileVersion(path=path, blob=blob, mode=content.mode)


def checkpoint_of_save(ledger: Ledger, run: str, before: FileReview) -> Checkpoint:
    """A checkpoint of a file that a save overwrites. An undo of the agent's run restores what its hunks replaced; the user's own
    lines are of no run, so the save is one.
    """
    title = f"Saved over changes on disk: {before.path}"
    files = (file_version(ledger, before.path, before.base),)
    return Checkpoint(id=f"cp_{new_id()[:16]}", created=now(), run=run, title=title, files=files)


def planned_write(review: FileReview, ids: Sequence[str]) -> PlannedWrite:
    """The entry of an intent for hunks that are about to be saved. Raises ``NotText``."""
    return plan_save(review, ids).saving


def has_all(review: FileReview, ids: Collection[str]) -> bool:
    return {hunk.id for hunk in review.hunks}.issuperset(ids)


def removes_folders(plans: Iterable[SavePlan]) -> bool:
    """Whether folders are removed: then implied folders in them must be removed at once."""
    return any(plan.before.is_folder and not plan.after.is_folder for plan in plans)


def replaced_folders(plans: Iterable[SavePlan]) -> set[str]:
    """The folders that something else replaces."""
    return {plan.saving.path for plan in plans if plan.before.is_folder and plan.changes_kind}


def sort_plans(plans: Sequence[SavePlan]) -> list[SavePlan]:
    """Order the plans so that no step blocks a later one: removals before creations, a folder after removals in it
    and before creations in it. A folder that is only removed comes last, as it may contain other files.
    """
    opened = replaced_folders(plans)

    def place(plan: SavePlan) -> tuple[int, int]:
        before, after, depth = plan.before, plan.after, plan.saving.path.count("/")
        if before.is_folder and after.is_folder:  # writable at once, or until the end
            return (0, depth) if after.mode & ENTERED == ENTERED else (5, -depth)
        if not after.exists and not before.is_folder:
            return 1, 0
        if before.is_folder and after.exists:
            return 2, -depth
        if before.is_folder:
            is_in_the_way = any(folder in opened for folder in parents(plan.saving.path))
            return (2, -depth) if is_in_the_way else (4, -depth)
        return 3, depth

    return sorted(plans, key=place)


def order_writes(ledger: Ledger, intent: SaveIntent) -> tuple[list[PlannedWrite], list[SavePlan]]:
    """The order of an interrupted save: first the steps that were done, then the rest as in ``sort_plans``; and the plans of the rest.
    Blocks.
    """
    plans: list[SavePlan] = []
    others: list[PlannedWrite] = []
    for saving in intent.files:
        review = ledger.get(saving.path)
        if has_all(review, saving.ids):
            plans.append(plan_save(review, saving.ids)._replace(saving=saving))
        else:
            others.append(saving)
    plans = sort_plans(plans)
    return [*others, *(plan.saving for plan in plans)], plans


def independent_groups(plans: Sequence[SavePlan]) -> Iterator[list[SavePlan]]:
    """The plans in their order; those of a group can be carried out at the same time: removals of files, of folders of one depth, or what
    writes files. Other folders and links are alone in theirs, as what follows may need them.
    """

    def group_of(plan: SavePlan) -> str | int:
        if plan.before.is_folder and not plan.after.exists:
            return -1 - plan.saving.path.count("/")
        is_file = all(file.is_plain or not file.exists for file in (plan.before, plan.after))
        return plan.after.exists if is_file else plan.saving.path

    return (list(group) for _, group in groupby(plans, group_of))


def is_about_file(error: Exception) -> bool:
    """Whether an error says nothing about other files: something is in the way of one. On a full disk, or where a host is gone, others
    would fail as well, and so would the ledger.
    """
    return isinstance(error, ReviewError) or getattr(error.__cause__, "errno", None) in _IN_THE_WAY


def failure_message(error: Exception, paths: Sequence[str], done: Collection[str]) -> str:
    """The message about a save of files that ended early, when some were ``done``."""
    unwritten = ", ".join(path for path in paths if path not in done)
    written = ", ".join(path for path in paths if path in done)
    return f"{error} Not saved: {unwritten}." + (f" Saved: {written}." if written else "")
