"""A file's journal without its early part: from a new beginning on, as though what came before had never been known.

Pure functions. What a checkpoint that is kept can be asked (``newel.review.revert``) has the same answer afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from newel.review.model.file_lines import text_hash
from newel.review.model.file_review import AppliedHunk, FileReview, StaleRevision
from newel.review.model.history import MOVES_BASE, Delta, HistoryEntry, applied_swap, delta, patched
from newel.review.store.ledger import Checkpoint


class TruncatedHistory(NamedTuple):
    """A review and its journal; the first entry is the new beginning where there is one."""

    review: FileReview
    entries: list[HistoryEntry]


def needed_from(
    entries: Sequence[HistoryEntry], checkpoints: Iterable[Checkpoint], runs: Collection[str], since: str
) -> int:
    """The first entry of a file's journal that is needed: for these checkpoints, which name the file, because it is of one of
    these runs, was made at ``since`` or later, or can be undone.
    """
    needed = len(entries)
    while needed and entries[needed - 1].kind not in MOVES_BASE:
        needed -= 1
    for n, each in enumerate(entries[:needed]):
        if each.ts >= since or each.run in runs:
            needed = n
            break
    first = {each.run: n for n, each in reversed(list(enumerate(entries)))}
    for checkpoint in checkpoints:
        start = first.get(checkpoint.run, len(entries))
        # A way back looks for the file as it was from the checkpoint on, until the run changed it.
        while start and entries[start - 1].ts >= checkpoint.created:
            start -= 1
        needed = min(needed, start)
    return needed


def shortened(
    review: FileReview, entries: Sequence[HistoryEntry], needed: int, is_kept: Callable[[AppliedHunk], bool]
) -> TruncatedHistory | None:
    """What is left from entry ``needed`` on, with those applied hunks alone that are kept; None where that is all there is.
    Raises ``StaleRevision`` if the journal does not lead to the review.
    """

    def without(now: FileReview) -> FileReview:
        applied = tuple(one for one in now.applied if is_kept(one))
        return now if len(applied) == len(now.applied) else msgspec.structs.replace(now, applied=applied)

    now = FileReview(path=review.path)
    for each in entries[:needed]:
        now = patched(now, each.forward)
    before = without(now)
    left = [_beginning(entries[needed - 1], before)] if needed else []
    is_same = needed <= 1 and before is now
    for each in entries[needed:]:
        now = patched(now, each.forward)
        after = without(now)
        is_same = is_same and after is now
        left.append(each if after is now and before is now else _with(each, before, after))
        before = after
    if (now.base, now.hunks, now.applied) != (review.base, review.hunks, review.applied):
        raise StaleRevision(f"The journal of {review.path} leads to another state than it has.")
    return None if is_same else TruncatedHistory(without(review), left)


def _with(entry: HistoryEntry, before: FileReview, after: FileReview) -> HistoryEntry:
    swap = applied_swap(before.applied, after.applied)
    forward = Delta(base=entry.forward.base, hunks=entry.forward.hunks, applied=swap)
    return msgspec.structs.replace(entry, forward=forward)


def _beginning(last: HistoryEntry, state: FileReview) -> HistoryEntry:
    """One entry in place of all up to ``last``, after which the file was ``state``."""
    nothing = FileReview(path=last.path)
    return HistoryEntry(
        id=last.id,
        path=last.path,
        rev=last.rev,
        kind="rebase",
        ts=last.ts,
        forward=delta(nothing, state),
        hash_before=text_hash(()),
        hash_after=last.hash_after,
    )
