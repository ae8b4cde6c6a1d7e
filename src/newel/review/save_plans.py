"""What a save does to each of its files, and in which order."""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from newel.review.folders import parents
from newel.review.model.file_lines import content_of, head_of, is_blob, text_hash
from newel.review.model.file_review import FileReview, Lines, ReviewError, render
from newel.review.store.ledger import PlannedWrite
from newel.workspace.port import ABSENT, FileNode

ENTERED: Final = stat.S_IRWXU
"""The bits that a folder must have for its owner to change what is in it."""


class NotText(ReviewError):
    """The file is too large to be reviewed, or would hold what no text can."""


class PlannedFile(NamedTuple):
    """A file as it is or should be: its hash as ``text_hash`` writes it, and its mode; no file has none of them. What is
    no regular file has its kind in the mode, and a link its target for ``data``. That is empty where the bytes are a blob
    of the ledger.
    """

    hash: str
    mode: int = 0
    data: bytes = b""

    def is_like(self, other: PlannedFile) -> bool:
        return self[:2] == other[:2]

    @property
    def sha256(self) -> str:
        """The hash as the workspace wants it."""
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
        """Whether it is a folder whose owner cannot change what is in it."""
        return self.is_folder and self.mode & ENTERED != ENTERED

    def opened(self) -> PlannedFile:
        """As it must be while what is in it changes; a file is itself."""
        return self._replace(mode=self.mode | ENTERED) if self.is_folder else self

    def thing(self, target: bytes) -> FileNode | None:
        """As ``TrackedWorkspace.become`` wants it."""
        return FileNode(self.mode, target if stat.S_ISLNK(self.mode) else b"") if self.exists else None


def file_of(lines: Lines) -> PlannedFile:
    """The file that lines make."""
    content = content_of(lines)
    return (
        PlannedFile(text_hash(lines), content.mode, content.data) if content else PlannedFile(text_hash(()))
    )


class SavePlan(NamedTuple):
    """A file that is about to be saved: what was there, and what will be. ``blob`` is the hash of bytes in the ledger.
    ``is_ours``: it has come, or has its mode, by what the ledger knows.
    """

    saving: PlannedWrite
    before: PlannedFile
    after: PlannedFile
    blob: str
    blob_before: str
    is_ours: bool

    @property
    def must_unlock(self) -> bool:
        """Whether it may not be written, and that is to be undone. A file that its user has protected stays."""
        before, after = self.before, self.after
        is_locked = before.is_plain and not before.mode & stat.S_IWUSR
        return is_locked and self.is_ours and before.mode != after.mode and before.hash != after.hash

    @property
    def changes_kind(self) -> bool:
        before, after = self.before, self.after
        return before.exists and after.exists and stat.S_IFMT(before.mode) != stat.S_IFMT(after.mode)


def plan_of(review: FileReview, ids: Sequence[str]) -> SavePlan:
    """Raises ``NotText``."""
    lines = render(review.base, [hunk for hunk in review.hunks if hunk.id in ids])
    body = lines[1:] if head_of(lines) is not None else lines
    if any("\0" in line for line in body) and not (len(body) == 1 and is_blob(body)):
        raise NotText(
            f"{review.path} would contain a NUL, or text mixed with binary data. Keep other hunks of it, or reject these."
        )
    before, after = file_of(review.base), file_of(lines)
    saving = PlannedWrite(
        path=review.path, rev=review.rev, ids=tuple(ids), before=before.hash, after=after.hash
    )
    content = content_of(lines)
    there = content_of(review.base)
    is_ours = any(one.a == 0 for one in review.applied)
    return SavePlan(
        saving, before, after, content.blob if content else "", there.blob if there else "", is_ours
    )


def saving_of(review: FileReview, ids: Sequence[str]) -> PlannedWrite:
    """What an intent says of hunks that are about to be saved. Raises ``NotText``."""
    return plan_of(review, ids).saving


def has_all(review: FileReview, ids: Collection[str]) -> bool:
    return {hunk.id for hunk in review.hunks}.issuperset(ids)


def makes_room(plans: Iterable[SavePlan]) -> bool:
    """Whether folders go: then those that came without an entry of their own, for what goes, must go at once."""
    return any(plan.before.is_folder and not plan.after.is_folder for plan in plans)


def making_way(plans: Iterable[SavePlan]) -> set[str]:
    """The folders that something else takes the place of."""
    return {plan.saving.path for plan in plans if plan.before.is_folder and plan.changes_kind}


def in_order(plans: Sequence[SavePlan]) -> list[SavePlan]:
    """So that nothing stands in the way of what comes later: what goes before what comes, a folder behind what goes out of
    it and before what goes into it. A folder that only goes is last, for it may hold what others have put there.
    """
    opened = making_way(plans)

    def place(plan: SavePlan) -> tuple[int, int]:
        before, after, depth = plan.before, plan.after, plan.saving.path.count("/")
        if before.is_folder and after.is_folder:  # one may write into it at once, or as long as need be
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
