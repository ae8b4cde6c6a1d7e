"""The journal of a file under review: every change with its delta and the reverse.

    forward    the state before  →  the state after
    reverse    the state after   →  the state before

Deltas are as small as the change. The state is the fold of the forward deltas; an undo is one more entry, whose
forward delta is the reverse of another. Entries are never removed from a journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

import msgspec

from newel.agent.messages import Wire, new_id, now
from newel.diff.patience import diff
from newel.review.model.file_lines import text_hash
from newel.review.model.file_review import (
    AppliedHunk,
    FileReview,
    Hunk,
    Lines,
    ReviewError,
    StaleRevision,
    buffer,
    root_of,
)

Kind = Literal[
    "propose",
    "user_edit",
    "accept",
    "reject",
    "reopen",
    "peel",
    "split",
    "save",
    "rebase",
    "record",
    "rollback",
    "undo",
    "redo",
]

MOVES_BASE: frozenset[Kind] = frozenset({"save", "rebase", "record"})
"""Changes that an undo in the buffer cannot revert, because the base is the file on disk; nor can it revert
earlier ones.
"""

T = TypeVar("T")


class NothingToUndo(ReviewError):
    """No change of this file can be undone, or redone."""


class LineDelta(Wire, frozen=True, kw_only=True, gc=False):
    """Replaces lines ``a:a+len(old)`` of the base by ``new``; positions are those in the base before."""

    a: int
    old: Lines
    new: Lines


class HunksSwap(Wire, frozen=True, kw_only=True):
    """Replaces the hunks ``old``, from the one at index ``at``, by ``new``."""

    at: int = 0
    old: tuple[Hunk, ...] = ()
    new: tuple[Hunk, ...] = ()


class AppliedSwap(Wire, frozen=True, kw_only=True):
    at: int = 0
    old: tuple[AppliedHunk, ...] = ()
    new: tuple[AppliedHunk, ...] = ()


class BufferDelta(Wire, frozen=True, kw_only=True):
    """The part of a delta that changes the buffer. Of a change of many lines it is less than half."""

    base: tuple[LineDelta, ...] = ()
    hunks: HunksSwap = HunksSwap()


class Delta(BufferDelta, frozen=True, kw_only=True):
    """The difference between two states of a file."""

    applied: AppliedSwap = AppliedSwap()


class HistoryEntry(Wire, frozen=True, kw_only=True):
    """One change. ``rev`` is the revision after it; ``hash_before`` and ``hash_after`` are hashes of the buffer.
    ``of`` is the entry that an undo or redo refers to. ``hunks`` are the affected hunks, ``run`` is the agent's
    run. ``reason`` is what the user says about a rejection.
    """

    id: str
    path: str
    rev: int
    kind: Kind
    ts: str
    forward: Delta
    hash_before: str
    hash_after: str
    hunks: tuple[str, ...] = ()
    run: str = ""
    of: str = ""
    reason: str = ""


class BufferEntry(Wire, frozen=True, kw_only=True):
    """The part of a ``HistoryEntry`` that tells how the buffer was before."""

    rev: int
    forward: BufferDelta


def delta(before: FileReview, after: FileReview) -> Delta:
    spans = [] if before.base is after.base else diff(before.base, after.base)
    hunks = _swap(before.hunks, after.hunks)
    return Delta(
        base=tuple(
            LineDelta(a=span.a0, old=before.base[span.a0 : span.a1], new=after.base[span.b0 : span.b1])
            for span in spans
        ),
        hunks=HunksSwap(at=hunks[0], old=hunks[1], new=hunks[2]),
        applied=applied_swap(before.applied, after.applied),
    )


def applied_swap(before: tuple[AppliedHunk, ...], after: tuple[AppliedHunk, ...]) -> AppliedSwap:
    at, old, new = _swap(before, after)
    return AppliedSwap(at=at, old=old, new=new)


def _swap(before: tuple[T, ...], after: tuple[T, ...]) -> tuple[int, tuple[T, ...], tuple[T, ...]]:
    """The difference between two sequences, without their common ends."""
    size = min(len(before), len(after))
    head = 0
    while head < size and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < size - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return head, before[head : len(before) - tail], after[head : len(after) - tail]


def reverse(forward: Delta) -> Delta:
    """The reverse of a delta."""
    swaps: list[LineDelta] = []
    shift = 0
    for swap in forward.base:
        swaps.append(LineDelta(a=swap.a + shift, old=swap.new, new=swap.old))
        shift += len(swap.new) - len(swap.old)
    hunks, applied = forward.hunks, forward.applied
    return Delta(
        base=tuple(swaps),
        hunks=HunksSwap(at=hunks.at, old=hunks.new, new=hunks.old),
        applied=AppliedSwap(at=applied.at, old=applied.new, new=applied.old),
    )


def patched(review: FileReview, forward: Delta) -> FileReview:
    """The next state. Raises ``StaleRevision`` if the delta was made for another state."""
    base: list[str] = []
    at = 0
    for swap in forward.base:
        end = swap.a + len(swap.old)
        if review.base[swap.a : end] != swap.old:
            raise _stale(review)
        base += review.base[at : swap.a]
        base += swap.new
        at = end
    lines = (*base, *review.base[at:]) if forward.base else review.base
    return msgspec.structs.replace(
        review,
        base=lines,
        hunks=_swapped(review, review.hunks, forward.hunks.at, forward.hunks.old, forward.hunks.new),
        applied=_swapped(
            review, review.applied, forward.applied.at, forward.applied.old, forward.applied.new
        ),
        rev=review.rev + 1,
    )


def _swapped(
    review: FileReview, items: tuple[T, ...], at: int, old: tuple[T, ...], new: tuple[T, ...]
) -> tuple[T, ...]:
    if not old and not new:
        return items
    end = at + len(old)
    if items[at:end] != old:
        raise _stale(review)
    return (*items[:at], *new, *items[end:])


def _stale(review: FileReview) -> StaleRevision:
    return StaleRevision(
        f"{review.path} is at revision {review.rev}, and the change was made for another state of it."
    )


def entry(
    kind: Kind,
    before: FileReview,
    after: FileReview,
    *,
    hunks: tuple[str, ...] = (),
    run: str = "",
    of: str = "",
    reason: str = "",
    hash_before: str = "",
) -> HistoryEntry:
    """The journal entry for a change. ``hash_before`` is the hash of the buffer before, if known."""
    return HistoryEntry(
        id=new_id(),
        path=before.path,
        rev=after.rev,
        kind=kind,
        ts=now(),
        forward=delta(before, after),
        hash_before=hash_before or text_hash(buffer(before)),
        hash_after=text_hash(buffer(after)),
        hunks=hunks,
        run=run,
        of=of,
        reason=reason,
    )


def buffer_before(review: FileReview, entries: Sequence[BufferEntry]) -> Lines:
    """The buffer before the last ``entries`` of the history of a file. Raises ``StaleRevision`` if they are not its history."""
    for entry in reversed(entries):
        review = patched(review, reverse(Delta(base=entry.forward.base, hunks=entry.forward.hunks)))
    return buffer(review)


def made_by(entries: Sequence[HistoryEntry]) -> set[str]:
    """The hunks that these changes created."""
    created: set[str] = set()
    for entry in entries:
        for swap in (entry.forward.hunks, entry.forward.applied):
            replaced = {root_of(hunk.id) for hunk in swap.old}
            created |= {hunk.id for hunk in swap.new if root_of(hunk.id) not in replaced}
    return created


def earlier(review: FileReview, entries: Sequence[HistoryEntry], rev: int) -> FileReview:
    """The state at an earlier revision, from the file's journal. Raises ``StaleRevision`` if the journal does not
    reach back to it.
    """
    if rev == review.rev:
        return review
    for entry in reversed(entries):
        if entry.rev == rev:
            return msgspec.structs.replace(review, rev=rev)
        review = patched(review, reverse(entry.forward))
    raise StaleRevision(f"{review.path} has no history back to revision {rev} any more.")


def undo(
    review: FileReview, entries: Sequence[HistoryEntry], hash_before: str = ""
) -> tuple[FileReview, HistoryEntry]:
    """Undo the latest change in the current series of edits and decisions. Raises ``NothingToUndo``."""
    done, _ = _stacks(entries)
    if not done:
        raise NothingToUndo(
            f"{review.path}: nothing to undo since it was last saved or read. To undo a save, use a rollback."
        )
    after = patched(review, reverse(done[-1].forward))
    return after, entry("undo", review, after, hunks=done[-1].hunks, of=done[-1].id, hash_before=hash_before)


def redo(
    review: FileReview, entries: Sequence[HistoryEntry], hash_before: str = ""
) -> tuple[FileReview, HistoryEntry]:
    """Redo the change that was last undone, unless another change followed. Raises ``NothingToUndo``."""
    _, undone = _stacks(entries)
    if not undone:
        raise NothingToUndo(f"{review.path}: nothing was undone since the last change.")
    after = patched(review, undone[-1].forward)
    return after, entry(
        "redo", review, after, hunks=undone[-1].hunks, of=undone[-1].id, hash_before=hash_before
    )


def _stacks(entries: Sequence[HistoryEntry]) -> tuple[list[HistoryEntry], list[HistoryEntry]]:
    """The entries that can be undone, and those that can be redone; the latest last."""
    done: list[HistoryEntry] = []
    undone: list[HistoryEntry] = []
    for entry in entries:
        match entry.kind:
            case "undo":
                undone.append(done.pop())
            case "redo":
                done.append(undone.pop())
            case kind if kind in MOVES_BASE:
                done, undone = [], []
            case _:
                done.append(entry)
                undone = []
    return done, undone
