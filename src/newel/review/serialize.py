"""Hunks, change log and checkpoints as JSON structs, for the review API and the page.

Field names are those of the JSON. Lines are counted from 1, without a file's head, as in patches.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from newel.diff.patience import diff
from newel.review.hunk_warnings import hunk_warning
from newel.review.model.file_kinds import Change as FileChange
from newel.review.model.file_kinds import described
from newel.review.model.file_lines import Kind, head_of, is_blob, text_hash
from newel.review.model.file_review import (
    AppliedHunk,
    FileReview,
    Hunk,
    Layer,
    Lines,
    Origin,
    accepted,
    buffer,
    is_head,
    placed,
    root_of,
    stems_from,
)
from newel.review.model.history import HistoryEntry, patched
from newel.review.model.history import Kind as EntryKind
from newel.review.model.patch import contexts, file_patch, hunk_patch
from newel.review.model.revision import versions
from newel.review.store.ledger import Checkpoint

HunkStatus = Literal["pending", "accepted", "rejected", "applied"]
HunkKind = Literal["lines", "bytes", "mode", "file"]
ChangeStatus = Literal["pending", "accepted", "rejected", "applied", "undone", "superseded"]

ABSENT = "none"
"""The hash of a file that does not exist."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the structs; the JSON contains every field."""


class EarlierProposal(View, frozen=True):
    """An earlier version of a hunk, proposed by run ``run_id`` and replaced by a later run; ``patch`` as in ``BundleHunk``."""

    run_id: str
    patch: str


class BundleHunk(View, frozen=True):
    """A hunk. ``accepted`` is None while it is undecided. ``patch`` is its part of a unified diff against the base
    alone, without lines that another hunk changes; it is empty if no line changes. ``kind`` says what does
    change: ``lines``, the ``bytes`` of a file without text, its ``mode``, or whether an empty ``file`` exists.
    ``start_line`` and ``end_line`` are its lines in the buffer; a hunk without lines there ends before it starts.
    ``mine``: the user has edited it, so rejecting it needs a choice. ``run_ids`` are the jobs and other runs that
    wrote it, ``own_lines`` the ranges of lines, first and last, that the user wrote inside the agent's.
    ``warning`` is a reason to look twice, in a few words. ``earlier`` are the versions that later ones replaced, the
    oldest first. ``hunk_id`` changes with the content of the hunk; a decision on an
    old id is refused with 409.
    """

    hunk_id: str
    kind: HunkKind
    patch: str
    accepted: bool | None
    edit_ids: tuple[str, ...]
    run_ids: tuple[str, ...]
    origin: Origin
    state: HunkStatus
    mine: bool
    conflict: bool
    oversized_hunk: bool
    start_line: int
    end_line: int
    own_lines: tuple[tuple[int, int], ...] = ()
    warning: str = ""
    earlier: tuple[EarlierProposal, ...] = ()


class BundleFile(View, frozen=True):
    """``base_file_hash`` is ``sha256:…`` of the file on disk as the ledger knows it, ``none`` for no file.
    ``accepted_patch`` contains the accepted and unsaved changes, as one diff for ``git apply`` and ``patch``; it
    is empty if there are none. ``kind`` is ``file``, ``link``, ``folder`` or ``pipe``: that of the buffer, or of
    the base if the file is deleted. ``change`` is ``created``, ``deleted``, ``modified``, ``mode`` or ``kind``;
    ``about`` describes changes that no line shows.
    """

    file_path: str
    base_file_hash: str
    rev: int
    accepted_patch: str
    hunks: tuple[BundleHunk, ...]
    kind: Kind = "file"
    change: FileChange = "modified"
    about: str = ""


class DiffBundle(View, frozen=True):
    job_id: str
    files: tuple[BundleFile, ...]


class ChangeView(View, frozen=True):
    """One change of a file's buffer. The patches are unified diffs of the file, forward and reverse;
    ``file_hash_before`` is the hash of the buffer before the change. ``superseded``: a later edit replaced it.
    """

    id: str
    file_path: str
    rev: int
    ts: str
    kind: EntryKind
    origin: Origin
    forward_patch: str
    reverse_patch: str
    status: ChangeStatus
    file_hash_before: str
    hunk_ids: tuple[str, ...]


class CheckpointHunk(View, frozen=True):
    hunk_id: str
    state: HunkStatus
    reverse_patch: str


class CheckpointFile(View, frozen=True):
    """``base_snapshot_hash`` is the hash of the file before the run."""

    file_path: str
    base_snapshot_hash: str
    hunks: tuple[CheckpointHunk, ...]


class CheckpointView(View, frozen=True):
    checkpoint_id: str
    session_id: str
    job_id: str
    created_at: str
    title: str
    affected_files: tuple[str, ...]
    files: tuple[CheckpointFile, ...]


class FileView(View, frozen=True):
    """A file under review, as the page edits it. The text is that of its buffer, None if the file would not exist."""

    file_path: str
    base_file_hash: str
    rev: int
    content: str | None
    hunks: tuple[BundleHunk, ...]


def is_of(hunk: Hunk, run: str) -> bool:
    """Whether a run wrote in a hunk."""
    return run in runs_of(hunk)


def runs_of(hunk: Hunk) -> tuple[str, ...]:
    """The runs that wrote in a hunk, in the order of their first edits."""
    return tuple(dict.fromkeys(layer.run for layer in hunk.layers if layer.run))


def bundle(run: str, reviews: Iterable[FileReview]) -> DiffBundle:
    """The proposals of a run, and the user's edits in the same files. Proposals of other runs are omitted."""
    files = [
        BundleFile(
            file_path=review.path,
            base_file_hash=text_hash(review.base),
            rev=review.rev,
            accepted_patch=file_patch(review.path, review.base, accepted(review)),
            hunks=tuple(_hunks(review, run, buffer(review))),
            **described(review.base, buffer(review))._asdict(),
        )
        for review in reviews
    ]
    return DiffBundle(job_id=run, files=tuple(files))


def file_view(review: FileReview) -> FileView:
    """The whole file. The content of a file without lines is empty."""
    text = buffer(review)
    content = None if not text else "".join(itertools.dropwhile(is_head, text))
    return FileView(
        file_path=review.path,
        base_file_hash=text_hash(review.base),
        rev=review.rev,
        content=content,
        hunks=tuple(_hunks(review, None, text)),
    )


def _hunks(review: FileReview, run: str | None, text: Lines) -> Iterator[BundleHunk]:
    """The hunks of one run, or of all runs, with the user's own. ``text`` is the buffer."""
    head = int(head_of(text) is not None)
    for (hunk, start, end), context in zip(placed(review), contexts(review), strict=True):
        if run is None or hunk.by_user or is_of(hunk, run):
            yield BundleHunk(
                hunk_id=hunk.id,
                kind=hunk_kind(review.base, hunk),
                patch=hunk_patch(review.base, hunk, context=context),
                accepted=None if hunk.state == "pending" else hunk.state == "accepted",
                edit_ids=tuple(dict.fromkeys(name for layer in hunk.layers for name in layer.edits)),
                run_ids=runs_of(hunk),
                origin="user" if hunk.by_user else "agent",
                state=hunk.state,
                mine=hunk.has_user_layer,
                conflict=hunk.conflict,
                oversized_hunk=hunk.oversized,
                start_line=max(start - head, 0) + 1,
                end_line=max(end - head, 0),
                own_lines=_own_lines(hunk, start - head),
                warning=hunk_warning(review, hunk),
                earlier=tuple(
                    EarlierProposal(
                        run_id=version.top.run, patch=hunk_patch(review.base, version, context=context)
                    )
                    for version in versions(hunk)
                ),
            )
    for applied_hunk in review.applied:
        if run is not None and applied_hunk.run == run:
            yield _applied_view(review, applied_hunk, head)


def hunk_kind(base: Lines, hunk: Hunk) -> HunkKind:
    """The kind of change that a hunk makes to a base."""
    return _kind(base[hunk.a : hunk.b], hunk.top.lines)


def _kind(before: Lines, after: Lines) -> HunkKind:
    """The kind of change between two states."""
    if is_blob(before) or is_blob(after):
        return "bytes"
    if any(not line.startswith("\0") for line in (*before, *after)):
        return "lines"
    return "mode" if before and after else "file"


def _own_lines(hunk: Hunk, before: int) -> tuple[tuple[int, int], ...]:
    """The ranges of lines that the user wrote. ``before`` is the number of lines in the buffer before the hunk."""
    proposed = next((layer.lines for layer in reversed(hunk.layers) if layer.origin == "agent"), None)
    if proposed is None or not hunk.is_shown or not hunk.has_user_layer:
        return ()
    spans = diff(proposed, hunk.top.lines)
    return tuple((before + span.b0 + 1, before + span.b1) for span in spans if span.b0 < span.b1)


def _applied_view(review: FileReview, hunk: AppliedHunk, head: int) -> BundleHunk:
    return BundleHunk(
        hunk_id=hunk.id,
        kind=_kind(hunk.before, review.base[hunk.a : hunk.b]),
        patch=_patch(
            _without(review.base, hunk), hunk.a, hunk.a + len(hunk.before), review.base[hunk.a : hunk.b]
        ),
        accepted=True,
        edit_ids=(),
        run_ids=(hunk.run,),
        origin="agent",
        state="applied",
        mine=not hunk.intact,
        conflict=False,
        oversized_hunk=False,
        start_line=max(hunk.a - head, 0) + 1,
        end_line=max(hunk.b - head, 0),
    )


def _without(base: Lines, hunk: AppliedHunk) -> Lines:
    return (*base[: hunk.a], *hunk.before, *base[hunk.b :])


def _patch(base: Lines, a: int, b: int, lines: Lines) -> str:
    return hunk_patch(base, Hunk(id="", a=a, b=b, layers=(Layer(origin="agent", lines=lines),)))


# -- the log of changes -------------------------------------------------------------------------------


def change_log(entries: Sequence[HistoryEntry], review: FileReview, *, limit: int = 200) -> list[ChangeView]:
    """The latest ``limit`` changes of a file's buffer, oldest first. ``entries`` is the file's whole journal, and
    ``review`` its current state.
    """
    steps: list[_Step] = []
    undone: set[str] = set()
    now = FileReview(path=review.path)
    for entry in entries:
        after = patched(now, entry.forward)
        if entry.kind == "undo":
            undone.add(entry.of)
        elif entry.kind == "redo":
            undone.discard(entry.of)
        elif entry.hash_before != entry.hash_after and entry.kind not in {"reject", "reopen", "accept"}:
            steps.append(_Step(entry, now, after))
        now = after
    return [_change(step, review, undone) for step in steps[-limit:]]


class _Step(NamedTuple):
    entry: HistoryEntry
    before: FileReview
    after: FileReview


def _change(step: _Step, now: FileReview, undone: set[str]) -> ChangeView:
    entry, before, after = step
    old, new = buffer(before), buffer(after)
    known_hunks = set(before.hunks)
    ids = tuple(hunk.id for hunk in after.hunks if hunk not in known_hunks)
    known_applied = {applied_hunk.id for applied_hunk in before.applied}
    ids += tuple(applied_hunk.id for applied_hunk in after.applied if applied_hunk.id not in known_applied)
    by_agent = entry.kind == "propose" or (entry.kind == "record" and entry.run)
    return ChangeView(
        id=entry.id,
        file_path=entry.path,
        rev=entry.rev,
        ts=entry.ts,
        kind=entry.kind,
        origin="agent" if by_agent else "user",
        forward_patch=file_patch(entry.path, old, new),
        reverse_patch=file_patch(entry.path, new, old),
        status="undone" if entry.id in undone else _status(now, ids),
        file_hash_before=entry.hash_before,
        hunk_ids=ids,
    )


def _status(now: FileReview, ids: Sequence[str]) -> ChangeStatus:
    """The state of a change's hunks: that of the least advanced one that still exists."""
    roots = {root_of(hunk_id) for hunk_id in ids}
    states = {hunk.state for hunk in now.hunks if stems_from(hunk.id, roots)}
    for state in ("pending", "rejected", "accepted"):
        if state in states:
            return state
    is_applied = any(stems_from(applied_hunk.id, roots) for applied_hunk in now.applied)
    return "applied" if is_applied else "superseded"


# -- checkpoints --------------------------------------------------------------------------------------


def checkpoint_view(
    checkpoint: Checkpoint,
    reviews: Iterable[FileReview],
    restored: Collection[str] = (),
    *,
    reverse: bool = True,
) -> CheckpointView:
    """A checkpoint with the hunks of its run and their reverse patches, which are empty without ``reverse``. ``reviews`` are those of
    its files; if the run is a rollback, ``restored`` are the hunks by which it restored them.
    """
    now = {review.path: review for review in reviews}
    return CheckpointView(
        checkpoint_id=checkpoint.id,
        session_id=checkpoint.session,
        job_id=checkpoint.run,
        created_at=checkpoint.created,
        title=checkpoint.title,
        affected_files=tuple(before.path for before in checkpoint.files),
        files=tuple(
            CheckpointFile(
                file_path=before.path,
                base_snapshot_hash=f"sha256:{before.blob}" if before.blob else ABSENT,
                hunks=tuple(_reverses(now[before.path], checkpoint.run, restored, reverse))
                if before.path in now
                else (),
            )
            for before in checkpoint.files
        ),
    )


def _reverses(
    review: FileReview, run: str, restored: Collection[str], reverse: bool
) -> Iterator[CheckpointHunk]:
    text = buffer(review) if reverse else ()
    for hunk, start, end in placed(review):
        if is_of(hunk, run) or stems_from(hunk.id, restored):
            is_reversed = reverse and hunk.is_shown
            back = _patch(text, start, end, review.base[hunk.a : hunk.b]) if is_reversed else ""
            yield CheckpointHunk(hunk_id=hunk.id, state=hunk.state, reverse_patch=back)
    for applied_hunk in review.applied:
        if applied_hunk.run == run or stems_from(applied_hunk.id, restored):
            back = _patch(review.base, applied_hunk.a, applied_hunk.b, applied_hunk.before) if reverse else ""
            yield CheckpointHunk(hunk_id=applied_hunk.id, state="applied", reverse_patch=back)
