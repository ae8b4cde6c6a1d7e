"""A file without what a run did to it: all of it as it was before, or some of its hunks taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from newel.agent.messages import Wire
from newel.review.bases import carried, kept
from newel.review.edits import tidied
from newel.review.history import Entry, patched, reverse
from newel.review.ledger import (
    Applied,
    Conflict,
    FileReview,
    Hunk,
    Layer,
    Lines,
    buffer,
    new_hunk_id,
    placed,
    touch,
)
from newel.review.rollback import restored, reverted
from newel.review.store import Before, Checkpoint
from newel.review.text import content_of, text_hash
from newel.tools.patience import Span, diff


class Overlap(Wire, frozen=True, kw_only=True):
    """What a rollback leaves alone, and why. ``hunk`` is empty where it is about a whole file."""

    path: str
    reason: str
    hunk: str = ""


class Step(NamedTuple):
    """What becomes of a file's review."""

    before: FileReview
    after: FileReview
    hunks: tuple[str, ...] = ()
    conflicts: tuple[Overlap, ...] = ()

    @property
    def known(self) -> set[str]:
        """The hunks that were asked for and found."""
        return {*self.hunks, *(conflict.hunk for conflict in self.conflicts)}


# -- hard: all of the file ----------------------------------------------------------------------------


def rewound(review: FileReview, entries: Sequence[Entry]) -> FileReview:
    """The review before the last ``entries`` of its journal."""
    for each in reversed(entries):
        review = patched(review, reverse(each.forward))
    return review


def restored_to(
    review: FileReview, entries: Sequence[Entry], checkpoint: Checkpoint, before: Before, lines: Lines
) -> Step:
    """All of a file as a checkpoint has it, whose ``lines`` are these. ``entries`` is the journal up to ``review``."""
    then = _then(review, entries, checkpoint, before)
    after = _as_then(review, then) if then else restored(review, lines, new_hunk_id)
    names = tuple(hunk.id for hunk in review.hunks if hunk not in after.hunks)
    return Step(review, review if _is_same(review, after) else after, names)


def _then(
    review: FileReview, entries: Sequence[Entry], checkpoint: Checkpoint, before: Before
) -> FileReview | None:
    """The review when a checkpoint was taken: the first one from then on, before the run changed it, whose buffer is the
    file that the checkpoint has, or else whose base is. None if the ledger did not know the file then.
    """
    first = next((n for n, each in enumerate(entries) if each.run == checkpoint.run), len(entries))
    then = [rewound(review, entries[first:])]
    for each in reversed(entries[:first]):
        if each.ts < checkpoint.created:
            break
        then.append(patched(then[-1], reverse(each.forward)))
    then.reverse()
    by_buffer = (each for each in then if _is(buffer(each), before))
    by_base = (each for each in then if _is(each.base, before))
    return next(by_buffer, None) or next(by_base, None)


def _is(lines: Lines, before: Before) -> bool:
    """Whether lines make the file that a checkpoint has."""
    content = content_of(lines)
    if content is None or not before.blob:
        return content is None and not before.blob
    return text_hash(lines) == f"sha256:{before.blob}" and content.mode == before.mode


def _is_same(one: FileReview, other: FileReview) -> bool:
    """Whether nothing differs but the names of hunks."""
    return [msgspec.structs.replace(hunk, id="") for hunk in one.hunks] == [
        msgspec.structs.replace(hunk, id="") for hunk in other.hunks
    ]


def _as_then(review: FileReview, then: FileReview) -> FileReview:
    """The review with the buffer that it had then; what had not been decided then is not decided by it."""
    if review.base == then.base:
        return msgspec.structs.replace(review, hunks=then.hunks, rev=review.rev + 1)
    after = restored(review, buffer(then), new_hunk_id)
    decided = {hunk.id for hunk in kept(then)}
    open_then = [each for each in placed(then) if each.hunk.is_shown and each.hunk.id not in decided]
    hunks: list[Hunk] = []
    for hunk, start, end in placed(after):
        mine = [each.hunk for each in open_then if touch(each.start, each.end, start, end)]
        hunks.append(_reopened(hunk, mine) if mine else hunk)
    return msgspec.structs.replace(after, hunks=tuple(hunks))


def _reopened(hunk: Hunk, proposals: Sequence[Hunk]) -> Hunk:
    """A hunk that brings proposals back, to be decided again."""
    layer = Layer(
        origin="agent",
        lines=hunk.top.lines,
        run=next((layer.run for each in proposals for layer in each.layers if layer.run), ""),
        edits=tuple(name for each in proposals for layer in each.layers for name in layer.edits),
    )
    return msgspec.structs.replace(hunk, layers=(layer,), state="pending")


# -- scoped: some hunks of the run --------------------------------------------------------------------


def _made(entries: Sequence[Entry], run: str) -> dict[str, Hunk]:
    """The hunks that a run put there as the user's, which is what a rollback does; as they were."""
    made: dict[str, Hunk] = {}
    for each in entries:
        if each.run == run and each.kind == "rollback":
            swap = each.forward.hunks
            known = {hunk.id for hunk in swap.old}
            made |= {hunk.id: hunk for hunk in swap.new if hunk.id not in known}
    return made


def taken_back(review: FileReview, entries: Sequence[Entry], run: str, ids: Sequence[str]) -> Step:
    """Without those of the hunks ``ids`` that are of a run, wherever they are: still under review, or in the file already.
    ``entries`` is the journal up to ``review``.
    """
    made = _made(entries, run)
    whole = mended(review, entries)
    proposed = {
        hunk.id for hunk in review.hunks if hunk.id in made or any(layer.run == run for layer in hunk.layers)
    }
    standing = {one.id for one in review.applied if one.run == run or one.id in made} - proposed
    after = whole
    gone: list[str] = []
    conflicts: list[Overlap] = []

    def tried(name: str, take_back: Callable[[], FileReview]) -> FileReview:
        try:
            changed = take_back()
        except Conflict as error:
            conflicts.append(Overlap(path=review.path, hunk=name, reason=str(error)))
            return after
        gone.append(name)
        return changed

    for name in dict.fromkeys(ids):
        if name in proposed:
            after = tried(name, partial(_withdrawn, after, name, run, made.get(name)))
    saved = [name for name in dict.fromkeys(ids) if name in standing]
    for name in saved:
        tried(name, partial(reverted, after, [name], new_hunk_id))
    if free := [name for name in saved if name in gone]:
        after = reverted(after, free, new_hunk_id)
    after = msgspec.structs.replace(after, applied=review.applied) if gone else review
    return Step(review, after, tuple(gone), tuple(conflicts))


def _withdrawn(review: FileReview, hunk_id: str, run: str, made: Hunk | None) -> FileReview:
    """Without what a run wrote into a hunk; ``made`` is the hunk as a rollback put it there. Raises ``Conflict`` where
    something newer stands on it.
    """
    hunk = review.hunk(hunk_id)
    if hunk.state == "rejected":
        return review
    is_newer = hunk.layers != made.layers if made else hunk.top.run != run
    if is_newer:
        raise Conflict(f"{review.path}: hunk {hunk_id} was written over since; decide it by itself.")
    left = () if made else hunk.layers
    while left and left[-1].run == run:
        left = left[:-1]
    new = (msgspec.structs.replace(hunk, state="rejected"),)
    if left:
        new = tidied(review.base, msgspec.structs.replace(hunk, layers=left, state="pending"))
    hunks = tuple(each for old in review.hunks for each in (new if old.id == hunk_id else (old,)))
    return msgspec.structs.replace(review, hunks=hunks, rev=review.rev + 1)


# -- whose lines are there again ----------------------------------------------------------------------


def mended(review: FileReview, entries: Sequence[Entry]) -> FileReview:
    """With those applied hunks intact again that were written over since, and whose lines stand there now as they did:
    what wrote over them was taken back. ``entries`` is the journal up to ``review``.
    """
    broken = {one.id for one in review.applied if not one.intact}
    same: dict[str, Applied] = {}
    last: dict[str, tuple[Lines, Applied]] = {}
    first: dict[str, tuple[Lines, Applied]] = {}
    now = review
    for each in reversed(entries):
        if not broken:
            break
        now = patched(now, reverse(each.forward))
        known = {one.id: one for one in now.applied if one.id in broken}
        for name, one in known.items():
            if one.intact:
                last.setdefault(name, (now.base, one))
                first[name] = now.base, one
                if now.base == review.base:
                    same.setdefault(name, one)
        broken -= same.keys() | {name for name in broken if name not in known}
    again = dict(same)  # where the file was what it is now, it is known where everything stood
    for seen in (last, first):
        for name, (lines, one) in seen.items():
            found = None if name in again else _found_again(lines, review.base, one)
            if found is not None and not any(
                touch(found.a, found.b, other.a, other.b) for other in again.values()
            ):
                again[name] = found
    if not again:
        return review
    return msgspec.structs.replace(review, applied=tuple(again.get(one.id, one) for one in review.applied))


def _found_again(then: Lines, now: Lines, one: Applied) -> Applied | None:
    """Where the lines of an applied hunk are now; None if they are not, or if it may be others that are like them."""
    spans = diff(then, now)
    if any(touch(one.a, one.b, *_reach(span, then, now)) for span in spans):
        return None
    return carried([one], spans)[0]


def _reach(span: Span, then: Lines, now: Lines) -> tuple[int, int]:
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
