"""Reverts what a run did to a file: restores it as a whole, or reverts some of its hunks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from newel.agent.messages import Wire
from newel.diff.patience import LineSpan, diff
from newel.review.model.edits import tidied
from newel.review.model.file_lines import content_of, kind_of, text_hash
from newel.review.model.file_review import (
    AppliedHunk,
    FileReview,
    Hunk,
    Layer,
    Lines,
    buffer,
    new_hunk_id,
    placed,
    root_of,
    stems_from,
)
from newel.review.model.history import HistoryEntry, patched, reverse
from newel.review.model.line_ranges import LineRangeSet, touch
from newel.review.model.moves import LineChange, halves_of_moves
from newel.review.model.rebase import carried, kept
from newel.review.model.revert_applied import in_the_way, restored, reverted
from newel.review.store.ledger import Checkpoint, FileVersion


class RevertConflict(Wire, frozen=True, kw_only=True):
    """A file or hunk that a rollback skips, and why. ``hunk`` is empty for a whole file."""

    path: str
    reason: str
    hunk: str = ""


class RevertStep(NamedTuple):
    """A file's review before and after a rollback."""

    before: FileReview
    after: FileReview
    hunks: tuple[str, ...] = ()
    conflicts: tuple[RevertConflict, ...] = ()

    @property
    def known(self) -> set[str]:
        """The requested hunks that exist."""
        return {*self.hunks, *(conflict.hunk for conflict in self.conflicts)}

    @property
    def removes_folder(self) -> bool:
        """Whether it removes a folder, or puts something else in its place."""
        return kind_of(self.before.base) == "folder" != kind_of(buffer(self.after))

    def skipped(self, reason: str) -> RevertStep:
        """The step if the file stays as it is."""
        left = (
            RevertConflict(path=self.before.path, reason=reason, hunk=name) for name in self.hunks or ("",)
        )
        return RevertStep(self.before, self.before, (), (*self.conflicts, *left))


# -- hard: all of the file ----------------------------------------------------------------------------


def rewind(review: FileReview, entries: Sequence[HistoryEntry]) -> FileReview:
    """The review before the last ``entries`` of its history."""
    for entry in reversed(entries):
        review = patched(review, reverse(entry.forward))
    return review


def restore_to(
    review: FileReview,
    entries: Sequence[HistoryEntry],
    checkpoint: Checkpoint,
    before: FileVersion,
    lines: Lines,
) -> RevertStep:
    """Restore a file to a checkpoint, where it has these ``lines``. ``entries`` is the history up to ``review``."""
    then = _then(review, entries, checkpoint, before)
    after = _as_then(review, then) if then else restored(review, lines, new_hunk_id)
    if _is_same(review, after):
        return RevertStep(review, review)
    earlier = {hunk.id for hunk in then.applied} if then else set[str]()
    undone = [hunk.id for hunk in review.applied if hunk.id not in earlier]
    applied = tuple(
        hunk if hunk.id in earlier else msgspec.structs.replace(hunk, intact=False) for hunk in review.applied
    )
    names = (*(hunk.id for hunk in review.hunks if hunk not in after.hunks), *undone)
    return RevertStep(review, msgspec.structs.replace(after, applied=applied), names)


def _then(
    review: FileReview, entries: Sequence[HistoryEntry], checkpoint: Checkpoint, before: FileVersion
) -> FileReview | None:
    """The review at the time of a checkpoint: the first one since, before the run changed it, whose buffer equals
    the file in the checkpoint, or else whose base does. None if the ledger did not have the file then.
    """
    first = next((n for n, entry in enumerate(entries) if entry.run == checkpoint.run), len(entries))
    then = [rewind(review, entries[first:])]
    for entry in reversed(entries[:first]):
        if entry.ts < checkpoint.created:
            break
        then.append(patched(then[-1], reverse(entry.forward)))
    then.reverse()
    by_buffer = (review for review in then if is_version(buffer(review), before))
    by_base = (review for review in then if is_version(review.base, before))
    return next(by_buffer, None) or next(by_base, None)


def is_version(lines: Lines, before: FileVersion) -> bool:
    """Whether lines make the file that a checkpoint has."""
    content = content_of(lines)
    if content is None or not before.blob:
        return content is None and not before.blob
    return text_hash(lines) == f"sha256:{before.blob}" and content.mode == before.mode


def _is_same(review: FileReview, other: FileReview) -> bool:
    """Whether two reviews only differ in the ids of hunks."""
    return [msgspec.structs.replace(hunk, id="") for hunk in review.hunks] == [
        msgspec.structs.replace(hunk, id="") for hunk in other.hunks
    ]


def _as_then(review: FileReview, then: FileReview) -> FileReview:
    """The review with its earlier buffer; hunks that were pending then are pending again."""
    if review.base == then.base:
        return msgspec.structs.replace(review, hunks=then.hunks, rev=review.rev + 1)
    after = restored(review, buffer(then), new_hunk_id)
    decided = {hunk.id for hunk in kept(then)}
    open_then = [
        position for position in placed(then) if position.hunk.is_shown and position.hunk.id not in decided
    ]
    hunks: list[Hunk] = []
    for hunk, start, end in placed(after):
        touching = [
            position.hunk for position in open_then if touch(position.start, position.end, start, end)
        ]
        hunks.append(_reopen(hunk, touching) if touching else hunk)
    return msgspec.structs.replace(after, hunks=tuple(hunks))


def _reopen(hunk: Hunk, proposals: Sequence[Hunk]) -> Hunk:
    """A pending hunk that restores proposals."""
    layer = Layer(
        origin="agent",
        lines=hunk.top.lines,
        run=next((layer.run for proposal in proposals for layer in proposal.layers if layer.run), ""),
        edits=tuple(name for proposal in proposals for layer in proposal.layers for name in layer.edits),
    )
    return msgspec.structs.replace(hunk, layers=(layer,), state="pending")


# -- scoped: some hunks of the run --------------------------------------------------------------------


class HunkNames:
    """Names of hunks in many files, found by the hunks of one file."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._places: dict[str, list[tuple[int, str]]] = {}
        for place, name in enumerate(dict.fromkeys(ids)):
            self._places.setdefault(root_of(name), []).append((place, name))

    def of(self, ids: Iterable[str]) -> list[str]:
        """The names in their order that are one of ``ids``, or were."""
        found = {place for root in map(root_of, ids) for place in self._places.get(root, ())}
        return [name for _, name in sorted(found)]


class FileHistory(NamedTuple):
    """What a revert needs to know of the history of a file. ``rollbacks`` are the rollbacks of the run, the usual run has none.
    ``read`` reads the whole history up to the review, which is only needed if changes were undone.
    """

    rollbacks: Sequence[HistoryEntry]
    read: Callable[[], Sequence[HistoryEntry]]

    @classmethod
    def of(cls, entries: Sequence[HistoryEntry], run: str) -> FileHistory:
        """For entries that are known."""
        own = [entry for entry in entries if entry.run == run and entry.kind == "rollback"]
        return cls(own, lambda: entries)


def _rollback_hunks(rollbacks: Sequence[HistoryEntry]) -> dict[str, Hunk]:
    """The hunks that a run created as the user's, as a rollback does; in their original state, by their original
    ids.
    """
    created: dict[str, Hunk] = {}
    for entry in rollbacks:
        swap = entry.forward.hunks
        replaced = {root_of(hunk.id) for hunk in swap.old}
        created |= {root_of(hunk.id): hunk for hunk in swap.new if root_of(hunk.id) not in replaced}
    return created


class WithdrawnHunk(NamedTuple):
    """A proposal that a rollback withdrew, or one that it proposed again: before the rollback, and after it."""

    before: Hunk
    after: Hunk

    def is_as_left(self, hunk: Hunk) -> bool:
        """Whether a hunk is as the rollback left it."""
        left = self.after
        return (hunk.layers, hunk.state, hunk.b - hunk.a) == (left.layers, left.state, left.b - left.a)

    def restored(self, hunk: Hunk) -> Hunk:
        return msgspec.structs.replace(hunk, layers=self.before.layers, state=self.before.state)


def withdrawn_hunks(rollbacks: Iterable[HistoryEntry]) -> dict[str, WithdrawnHunk]:
    """The proposals that the rollbacks of a run withdrew or proposed again, by their original ids, as far as they cover the same lines."""
    found: dict[str, WithdrawnHunk] = {}
    for entry in rollbacks:
        swap = entry.forward.hunks
        earlier = {root_of(hunk.id): hunk for hunk in swap.old}
        for hunk in swap.new:
            before = earlier.get(root_of(hunk.id))
            is_same = before is None or (before.layers, before.state) == (hunk.layers, hunk.state)
            if before and not is_same and before.b - before.a == hunk.b - hunk.a:
                found.setdefault(root_of(hunk.id), WithdrawnHunk(before, hunk))
    return found


def left_withdrawn(review: FileReview, withdrawn: Mapping[str, WithdrawnHunk]) -> list[Hunk]:
    """The hunks of a file that are as the rollback left them that withdrew them, or proposed them again."""
    known = ((hunk, withdrawn.get(root_of(hunk.id))) for hunk in review.hunks)
    return [hunk for hunk, found in known if found is not None and found.is_as_left(hunk)]


def revert_hunks(review: FileReview, history: FileHistory, run: str, names: HunkNames) -> RevertStep:
    """Revert those of the named hunks that are of a run, in the review or in the file already."""
    created = _rollback_hunks(history.rollbacks)
    proposed = {
        hunk.id
        for hunk in review.hunks
        if stems_from(hunk.id, created) or any(layer.run == run for layer in hunk.layers)
    }
    standing = {
        applied_hunk.id
        for applied_hunk in review.applied
        if applied_hunk.run == run or stems_from(applied_hunk.id, created)
    } - proposed
    withdrawn = withdrawn_hunks(history.rollbacks)
    again = {hunk.id: withdrawn[root_of(hunk.id)] for hunk in left_withdrawn(review, withdrawn)}
    current = proposed | standing | again.keys()
    named = names.of([*current, *(hunk.id for hunk in review.hunks)])
    whole = restore_intact(review, history.read, standing.intersection(named))
    after, newer = _withdrawn(whole, proposed.intersection(named), run, created)
    in_place = [name for name in named if name in standing]
    successors = {root_of(hunk.id): hunk.id for hunk in reversed(review.hunks)}
    stale = {
        name: f"{review.path}: hunk {name} has changed since it had that id; it is {now} now."
        for name in named
        if name not in current and (now := successors.get(root_of(name))) in proposed
    }
    blocked = newer | stale | in_the_way(after, in_place)
    if not blocked.keys().isdisjoint(in_place):
        blocked |= _torn_moves(whole, chain([whole], _states(review, history.read)), in_place, blocked)
    after = reverted(after, [name for name in in_place if name not in blocked], new_hunk_id)
    hunks = tuple(
        again[hunk.id].restored(hunk) if hunk.id in again and hunk.id in named else hunk
        for hunk in after.hunks
    )
    after = msgspec.structs.replace(after, hunks=hunks)
    remaining = {hunk.id for hunk in hunks}
    blocked |= {
        name: f"{review.path}: hunk {name} is not proposed again: other lines are restored in its place."
        for name in named
        if name in again and name not in remaining
    }
    gone = [name for name in named if name in current and name not in blocked]
    is_changed = after.hunks != review.hunks
    after = (
        msgspec.structs.replace(after, applied=review.applied, rev=review.rev + 1) if is_changed else review
    )
    conflicts = [
        RevertConflict(path=review.path, hunk=name, reason=blocked[name]) for name in named if name in blocked
    ]
    return RevertStep(review, after, tuple(gone), tuple(conflicts))


def _torn_moves(
    review: FileReview, states: Iterable[FileReview], names: Sequence[str], blocked: Collection[str]
) -> dict[str, str]:
    """The reasons for those of the saved hunks ``names`` that would be undone without the other half of a move, which is ``blocked``.
    ``states`` are those of the review, the latest first.
    """
    stays = dict.fromkeys(name for name in names if name in blocked)
    if len(stays) == len(names):
        return {}
    starts = {hunk.id: hunk.a for hunk in review.applied}
    halves = halves_of_moves(_line_changes(states, names), stays)
    return {
        name: f"{review.path}:{max(starts[name], 1)}: hunk {name} cannot be undone by itself: it belongs to a move, and its other half, hunk {other}, stays."
        for name, other in halves.items()
    }


def _line_changes(states: Iterable[FileReview], names: Sequence[str]) -> dict[str, LineChange]:
    """What saved hunks have replaced, and by what: as it stands, or as it stood last."""
    remaining = set(names)
    found: dict[str, LineChange] = {}
    for then in states:
        for hunk in then.applied:
            if hunk.intact and hunk.id in remaining:
                found[hunk.id] = LineChange(hunk.before, then.base[hunk.a : hunk.b])
        remaining -= found.keys()
        if not remaining:
            break
    return found


def _states(review: FileReview, read: Callable[[], Sequence[HistoryEntry]]) -> Iterator[FileReview]:
    """The review now and at each earlier time, the latest first."""
    yield review
    for entry in reversed(read()):
        review = patched(review, reverse(entry.forward))
        yield review


def _withdrawn(
    review: FileReview, ids: Collection[str], run: str, created: Mapping[str, Hunk]
) -> tuple[FileReview, dict[str, str]]:
    """Drop what a run wrote in the hunks ``ids``; returns the reasons for those with later changes, which are left
    as they are. ``created`` are the hunks that a rollback created, in their original state.
    """
    hunks: list[Hunk] = []
    newer: dict[str, str] = {}
    for hunk in review.hunks:
        as_made = created.get(root_of(hunk.id))
        if hunk.id not in ids or hunk.state == "rejected":
            hunks.append(hunk)
        elif hunk.layers != as_made.layers if as_made else hunk.top.run != run:
            newer[hunk.id] = f"{review.path}: hunk {hunk.id} was overwritten since; decide it separately."
            hunks.append(hunk)
        else:
            hunks += _without(review.base, hunk, "" if as_made else run)
    return msgspec.structs.replace(review, hunks=tuple(hunks)), newer


def _without(base: Lines, hunk: Hunk, run: str) -> Sequence[Hunk]:
    """The rest of a hunk without the top layers of a run, or of any run."""
    remaining = hunk.layers if run else ()
    while remaining and remaining[-1].run == run:
        remaining = remaining[:-1]
    if not remaining:
        return [msgspec.structs.replace(hunk, state="rejected")]
    return tidied(base, msgspec.structs.replace(hunk, layers=remaining, state="pending"))


# -- hunks whose lines were restored ----------------------------------------------------------------------


def restore_intact(
    review: FileReview, read: Callable[[], Sequence[HistoryEntry]], ids: Collection[str]
) -> FileReview:
    """Mark applied hunks as intact again that were overwritten, if the change that overwrote them was undone, so that their lines
    are as before; those that were undone themselves, only where the file is as it was. ``read`` reads the history up to ``review``.
    Slow, so only done if one of the hunks ``ids`` was overwritten.
    """
    broken = {hunk.id for hunk in review.applied if not hunk.intact}
    if broken.isdisjoint(ids):
        return review
    same: dict[str, AppliedHunk] = {}
    last: dict[str, tuple[Lines, AppliedHunk]] = {}
    first: dict[str, tuple[Lines, AppliedHunk]] = {}
    now = review
    undone: set[str] = set()
    latest: dict[str, str] = {}  # whether an entry was undone or redone last
    for entry in reversed(read()):
        if not broken:
            break
        if entry.of:
            latest.setdefault(entry.of, entry.kind)
        elif entry.kind == "rollback" and latest.get(entry.id) != "undo":
            undone.update(entry.hunks)
        now = patched(now, reverse(entry.forward))
        broken_by_id = {hunk.id: hunk for hunk in now.applied if hunk.id in broken}
        for name, hunk in broken_by_id.items():
            if hunk.intact:
                last.setdefault(name, (now.base, hunk))
                first[name] = now.base, hunk
                if now.base == review.base:
                    same.setdefault(name, hunk)
        broken -= same.keys() | {name for name in broken if name not in broken_by_id}
    again = dict(same)  # positions are known where the file was the same as now
    taken = LineRangeSet(len(review.base), ((hunk.a, hunk.b) for hunk in again.values()))
    for seen in (last, first):
        # Lines like those that an undo has removed are others.
        for lines, ones in _by_text({name: where for name, where in seen.items() if name not in undone}):
            for relocated in _relocate(lines, review.base, [hunk for hunk in ones if hunk.id not in again]):
                if not taken.touch(relocated.a, relocated.b):
                    taken.add(relocated.a, relocated.b)
                    again[relocated.id] = relocated
    if not again:
        return review
    return msgspec.structs.replace(review, applied=tuple(again.get(hunk.id, hunk) for hunk in review.applied))


def _by_text(seen: Mapping[str, tuple[Lines, AppliedHunk]]) -> Iterable[tuple[Lines, list[AppliedHunk]]]:
    """The hunks that were seen in the same text together: to compare two texts takes far longer than to ask for a hunk."""
    texts: dict[int, tuple[Lines, list[AppliedHunk]]] = {}
    for lines, hunk in seen.values():
        texts.setdefault(id(lines), (lines, []))[1].append(hunk)
    return texts.values()


def _relocate(then: Lines, now: Lines, applied: Sequence[AppliedHunk]) -> list[AppliedHunk]:
    """The current positions of the lines of applied hunks, except those whose lines are gone, put back or ambiguous."""
    if not applied:
        return []
    spans = diff(then, now)
    changed = LineRangeSet(len(then), (_reach(span, then, now) for span in spans))
    untouched = [hunk for hunk in applied if not changed.touch(hunk.a, hunk.b)]
    return [hunk for hunk in carried(untouched, spans, now) if hunk.intact]


def _reach(span: LineSpan, then: Lines, now: Lines) -> tuple[int, int]:
    """The lines of ``then`` that a change may be about: lines that came or went beside others like them may be any of those."""
    if span.a0 < span.a1 and span.b0 < span.b1:
        return span.a0, span.a1
    lines, start, end = (now, span.b0, span.b1) if span.a0 == span.a1 else (then, span.a0, span.a1)
    up = down = 0
    while start - up and lines[start - up - 1] == lines[end - up - 1]:
        up += 1
    while end + down < len(lines) and lines[start + down] == lines[end + down]:
        down += 1
    return span.a0 - up, span.a1 + down
