"""Replace the base: on a save of kept hunks, a change on disk, or a write by an agent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from newel.diff.patience import LineSpan
from newel.review.model.edits import NewId, fused, tidied
from newel.review.model.file_lines import head_of, is_whole, make_head, spans_of
from newel.review.model.file_review import AppliedHunk, FileReview, Hunk, Lines, UnknownHunk, is_head, render
from newel.review.model.line_ranges import LineMapping, growth, touch


def kept(review: FileReview) -> list[Hunk]:
    """The hunks that a save writes: accepted ones, and those that only the user wrote."""
    return [
        hunk
        for hunk in review.hunks
        if hunk.state == "accepted" or (hunk.state == "pending" and not hunk.conflict and hunk.by_user)
    ]


def saved(review: FileReview, ids: Collection[str] | None = None, run: str = "") -> FileReview:
    """The review after the hunks ``ids`` (None: all that are ``kept``) were written to the file. The others remain,
    at their places in the new base. Conflicts that are the user's own become changes of the save's ``run``. A last line without an end gets
    one if the text behind it was not saved as deleted.
    """
    chosen = {hunk.id for hunk in kept(review)} if ids is None else set(ids)
    if unknown := chosen - {hunk.id for hunk in review.hunks}:
        raise UnknownHunk(
            f"{review.path} has no hunk {', '.join(sorted(unknown))} now. Read the review again."
        )
    base = render(review.base, [hunk for hunk in review.hunks if hunk.id in chosen])
    headless = bool(base) and head_of(base) is None  # the kept part of a new file does not include its head
    base = (make_head(), *base) if headless else base
    hunks: list[Hunk] = []
    applied: list[AppliedHunk] = []
    spans: list[LineSpan] = []
    shift = int(headless)
    for hunk in review.hunks:  # by their order, not by their lines: several may be at one place
        if hunk.id not in chosen:
            hunks.append(_left(hunk, shift, is_new=bool(base) and not review.base))
            continue
        start, size = hunk.a + shift, len(hunk.top.lines)
        # A last line without an end, with text behind it now, was given one: that is part of the hunk, too.
        is_kept = hunk.a > (spans[-1].a1 if spans else 0)
        line_ended = int(is_kept and review.base[hunk.a - 1] != base[start - 1])
        span = LineSpan(
            hunk.a - line_ended, hunk.b, start - line_ended - int(headless and not spans), start + size
        )
        spans.append(span)
        applied.append(
            AppliedHunk(
                id=hunk.id,
                a=span.b0,
                b=span.b1,
                before=review.base[span.a0 : span.a1],
                run=next((layer.run for layer in hunk.layers if layer.run), run if hunk.conflict else ""),
            )
        )
        shift += size - (hunk.b - hunk.a)
    return msgspec.structs.replace(
        review,
        base=base,
        hunks=tuple(hunks),
        applied=(*carried(review.applied, spans, base), *applied),
        rev=review.rev + 1,
    )


def _left(hunk: Hunk, shift: int, *, is_new: bool) -> Hunk:
    """A hunk that was not saved, in the new base. If the file ``is_new``, the new base has its head."""
    if not is_new:
        return msgspec.structs.replace(hunk, a=hunk.a + shift, b=hunk.b + shift)
    layers = tuple(
        msgspec.structs.replace(layer, lines=tuple(line for line in layer.lines if not is_head(line)))
        for layer in hunk.layers
    )
    return msgspec.structs.replace(hunk, a=max(shift, 1), b=max(shift, 1), layers=layers)


def rebased(
    review: FileReview, base: Lines, *, run: str | None = None, new_id: NewId | None = None
) -> FileReview:
    """The review on another base, which another program or an agent's ``run`` wrote; the changes of a run can be
    rolled back. Hunks that the change does not touch remain; a hunk that it touches becomes a conflict over all
    touched lines.
    """
    spans = spans_of(review.base, base)
    if not spans:
        return review
    changes = LineMapping(spans)
    hunks: list[Hunk] = []
    is_other = is_whole(review.base, base)
    for group in _groups(review, spans, is_other=is_other):
        shift = changes.shift(group.a, group.spans)
        if not group.spans:
            hunks += [
                msgspec.structs.replace(hunk, a=hunk.a + shift, b=hunk.b + shift) for hunk in group.hunks
            ]
            continue
        # Rejected hunks yield to the others.
        visible = [hunk for hunk in group.hunks if hunk.is_shown] or group.hunks
        if visible:
            conflict = Hunk(
                id=visible[0].id,
                a=group.a + shift,
                b=group.b + shift + growth(group.spans),
                layers=fused(review.base, group.a, group.b, visible),
                state="pending" if visible[0].is_shown else "rejected",
                conflict=True,
            )
            hunks += tidied(base, conflict)
    applied = carried(review.applied, spans, base)
    if run is not None and new_id is not None:
        applied += [
            AppliedHunk(id=new_id(), a=span.b0, b=span.b1, before=review.base[span.a0 : span.a1], run=run)
            for span in spans
        ]
    return msgspec.structs.replace(
        review, base=base, hunks=tuple(hunks), applied=tuple(applied), rev=review.rev + 1
    )


class HunkGroup(NamedTuple):
    """Hunks and changes of the base that touch each other, and the base lines ``a:b`` that they cover."""

    a: int
    b: int
    hunks: list[Hunk]
    spans: list[LineSpan]


def _groups(review: FileReview, spans: Sequence[LineSpan], *, is_other: bool) -> list[HunkGroup]:
    """``is_other``: no hunk remains as it is."""
    groups: list[HunkGroup] = []
    all_of_it = (0, len(review.base) + 1)
    # At the same place the change of the base comes first, so that a hunk there meets it.
    items = [(span.a0, span.a1, 0, index) for index, span in enumerate(spans)]
    # Deleting a file affects all of it, whatever it contained.
    items += [
        (*(all_of_it if is_other or _deletes(review.base, hunk) else (hunk.a, hunk.b)), 1, index)
        for index, hunk in enumerate(review.hunks)
    ]
    for a, b, kind, index in sorted(items):
        if not groups or not touch(groups[-1].a, groups[-1].b, a, b):
            groups.append(HunkGroup(a, b, [], []))
        last = groups[-1]
        groups[-1] = last._replace(b=max(last.b, b))
        if kind:
            last.hunks.append(review.hunks[index])
        else:
            last.spans.append(spans[index])
    return [group._replace(b=min(group.b, len(review.base))) for group in groups]


def _deletes(base: Lines, hunk: Hunk) -> bool:
    return hunk.a == 0 < hunk.b and is_head(base[0]) and not hunk.top.lines


def carried(applied: Sequence[AppliedHunk], spans: Sequence[LineSpan], now: Lines) -> list[AppliedHunk]:
    """The current positions of the lines of saved hunks, in the new base ``now``; hunks whose lines were overwritten, or put back, are no
    longer intact.
    """
    changes = LineMapping(spans)
    moved: list[AppliedHunk] = []
    for hunk in applied:
        over = changes.over(hunk.a, hunk.b)
        shift = changes.shift(hunk.a, over)
        a, b = hunk.a + shift, hunk.b + shift + growth(over)
        if over:
            a = min(a, over[0].b0)
            b = over[-1].b1 if over[-1].a1 > hunk.b else b
        intact = hunk.intact and not over and not _is_put_back(hunk, changes, now)
        moved.append(msgspec.structs.replace(hunk, a=a, b=b, intact=intact))
    return moved


def _is_put_back(hunk: AppliedHunk, changes: LineMapping, now: Lines) -> bool:
    """Whether changes beside a hunk have written again what it removed, or replaced: brackets and blank lines may be there by chance."""
    size = len(hunk.before)
    if not size or (hunk.a < hunk.b and not any(char.isalnum() for line in hunk.before for char in line)):
        return False
    return any(
        now[start : start + size] == hunk.before
        for span in changes.near(hunk.a, hunk.b)
        for start in range(span.b0, span.b1 - size + 1)
    )
