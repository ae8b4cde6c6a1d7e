"""How files were before a run of an agent, and the way back there.

    points = Checkpoints(ledger, saver)
    point = await points.begin(run)                     # a run begins
    await points.touch(point.id, "src/a.py")            # before it changes a file
    plan = await points.plan(point.id, "hard_all")      # what a rollback would do, for a person to confirm
    await points.rollback(plan)                         # into the buffers; a save brings it to the disk

A rollback is a run like any other, with a checkpoint of its own: so it can be rolled back. The journal keeps all that a
rollback takes out of a buffer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

import anyio.to_thread
import msgspec

from newel.agent.errors import WorkspaceError
from newel.agent.messages import Wire, new_id, now
from newel.review.edits import tidied
from newel.review.history import Entry, patched, reverse
from newel.review.ledger import (
    Conflict,
    FileReview,
    Hunk,
    Layer,
    Lines,
    ReviewError,
    StaleRevision,
    UnknownHunk,
    buffer,
    placed,
    touch,
)
from newel.review.patches import file_patch
from newel.review.rollback import restored, reverted
from newel.review.saving import Saver
from newel.review.store import Before, Checkpoint, Ledger, LedgerError
from newel.review.text import content_of, is_blob, lines_of, text_hash

Mode = Literal["hard_all", "scoped_selected"]


class UnknownCheckpoint(ReviewError):
    """There is no such checkpoint, or it knows nothing of the file."""


class Diff3(Wire, frozen=True, kw_only=True):
    """A file three times: as it is in the buffer ``current``, as it was before the run (``base``), and as the run left it
    (``proposed``), with the unified diffs from ``base``. A text is None for no file, and for one that is no text.
    """

    path: str
    current: str | None
    base: str | None
    proposed: str | None
    current_patch: str
    proposed_patch: str


class FilePlan(Wire, frozen=True, kw_only=True):
    """What a rollback does to a file's buffer of revision ``rev``, as a unified diff; ``hunks`` are those taken back."""

    path: str
    rev: int
    patch: str
    hunks: tuple[str, ...] = ()


class Overlap(Wire, frozen=True, kw_only=True):
    """What a rollback leaves alone, and why. ``hunk`` is empty where it is about a whole file."""

    path: str
    reason: str
    hunk: str = ""


class Plan(Wire, frozen=True, kw_only=True):
    """A rollback that can be carried out. ``run`` is the run that it will be, to which its own checkpoint belongs. Files on
    which it would do nothing are none of ``files``.
    """

    checkpoint: str
    mode: Mode
    run: str
    hunk_ids: tuple[str, ...] = ()
    files: tuple[FilePlan, ...] = ()
    conflicts: tuple[Overlap, ...] = ()


class _Step(NamedTuple):
    """What becomes of a file's review."""

    before: FileReview
    after: FileReview
    hunks: tuple[str, ...] = ()
    conflicts: tuple[Overlap, ...] = ()

    @property
    def known(self) -> set[str]:
        """The hunks that were asked for and found."""
        return {*self.hunks, *(conflict.hunk for conflict in self.conflicts)}


class Checkpoints:
    """The checkpoints of a ledger. Raises ``LedgerError``."""

    def __init__(self, ledger: Ledger, saver: Saver) -> None:
        self._ledger = ledger
        self._saver = saver
        self._lock = threading.Lock()

    # -- taking them --------------------------------------------------------------------------------

    async def begin(self, run: str, *, session: str = "", title: str = "") -> Checkpoint:
        """The checkpoint of a run: a new one, or the one that it has."""
        return await anyio.to_thread.run_sync(self._begin, run, session, title)

    def _begin(self, run: str, session: str, title: str) -> Checkpoint:
        with self._lock:
            for known in self._ledger.checkpoints():
                if known.run == run:
                    return known
            made = Checkpoint(id=f"cp_{new_id()[:16]}", created=now(), run=run, session=session, title=title)
            self._ledger.add_checkpoint(made)
            return made

    async def touch(self, checkpoint: str, *paths: str, as_known: bool = False) -> None:
        """Remember files as their buffers are, before a run changes them; what is remembered already stays. First what the
        disk has is taken up, unless ``as_known``. Raises ``UnknownCheckpoint``, and what ``Saver.refresh`` raises.
        """
        if not as_known:
            for path in paths:
                await self._saver.refresh(path)
        await anyio.to_thread.run_sync(self._touch, checkpoint, paths)

    def _touch(self, checkpoint_id: str, paths: Sequence[str]) -> None:
        with self._lock:
            checkpoint = self.get(checkpoint_id)
            known = {before.path for before in checkpoint.files}
            fresh = tuple(self._before(path) for path in dict.fromkeys(paths) if path not in known)
            if fresh:
                grown = msgspec.structs.replace(checkpoint, files=(*checkpoint.files, *fresh))
                self._ledger.add_checkpoint(grown)

    def _before(self, path: str) -> Before:
        content = content_of(buffer(self._ledger.get(path)))
        if content is None:
            return Before(path=path, blob="", mode=0)
        blob = content.blob or self._ledger.put_blobs([content.data])[0]
        return Before(path=path, blob=blob, mode=content.mode)

    # -- looking at them ----------------------------------------------------------------------------

    def get(self, checkpoint_id: str) -> Checkpoint:
        """Raises ``UnknownCheckpoint``."""
        for checkpoint in self._ledger.checkpoints():
            if checkpoint.id == checkpoint_id:
                return checkpoint
        raise UnknownCheckpoint(f"There is no checkpoint {checkpoint_id}. Look at the list of checkpoints.")

    def diff3(self, checkpoint_id: str, path: str) -> Diff3:
        """Raises ``UnknownCheckpoint``, also for a file that the checkpoint knows nothing of."""
        checkpoint = self.get(checkpoint_id)
        base = self._lines(_before_of(checkpoint, path))
        review, entries = self._read(path)
        last = max((n for n, each in enumerate(entries, 1) if each.run == checkpoint.run), default=None)
        proposed = base if last is None else buffer(_rewound(review, entries[last:]))
        current = buffer(review)
        return Diff3(
            path=path,
            current=_text(current),
            base=_text(base),
            proposed=_text(proposed),
            current_patch=file_patch(path, base, current),
            proposed_patch=file_patch(path, base, proposed),
        )

    # -- going back ---------------------------------------------------------------------------------

    async def plan(self, checkpoint_id: str, mode: Mode, hunk_ids: Sequence[str] = ()) -> Plan:
        """What a rollback would do; it changes no buffer and nothing on the disk, but takes up what the disk has.

        ``hard_all`` makes each file what it was before the run, whatever came later. ``scoped_selected`` takes the hunks
        ``hunk_ids`` of the run back, and nothing else; one that something newer stands on is a conflict, and stays. Raises
        ``UnknownCheckpoint`` and ``UnknownHunk``.
        """
        checkpoint = await anyio.to_thread.run_sync(self.get, checkpoint_id)
        conflicts: list[Overlap] = []
        for before in checkpoint.files:
            try:
                await self._saver.refresh(before.path)
            except LedgerError:
                raise
            except (ReviewError, WorkspaceError) as error:
                conflicts.append(Overlap(path=before.path, reason=str(error)))
        plan = Plan(
            checkpoint=checkpoint_id, mode=mode, run=f"rollback_{new_id()[:16]}", hunk_ids=tuple(hunk_ids)
        )
        left_alone = {conflict.path for conflict in conflicts}
        paths = [before.path for before in checkpoint.files if before.path not in left_alone]
        return await anyio.to_thread.run_sync(self._filled, plan, checkpoint, paths, conflicts)

    def _filled(
        self, plan: Plan, checkpoint: Checkpoint, paths: Sequence[str], conflicts: Sequence[Overlap]
    ) -> Plan:
        steps = [self._step(plan, checkpoint, path) for path in paths]
        if plan.mode == "scoped_selected":
            known = {name for step in steps for name in step.known}
            if unknown := [name for name in plan.hunk_ids if name not in known]:
                raise UnknownHunk(
                    f"Checkpoint {plan.checkpoint} has no hunk {', '.join(unknown)} now. Read it anew."
                )
        files = tuple(
            FilePlan(
                path=step.before.path,
                rev=step.before.rev,
                patch=file_patch(step.before.path, buffer(step.before), buffer(step.after)),
                hunks=step.hunks,
            )
            for step in steps
            if step.after is not step.before
        )
        found = (conflict for step in steps for conflict in step.conflicts)
        return msgspec.structs.replace(plan, files=files, conflicts=(*conflicts, *found))

    async def rollback(self, plan: Plan) -> list[FileReview]:
        """Do what a plan says, in the buffers; ``Saver.save`` brings it to the disk. Raises ``StaleRevision`` if a file's
        review has changed since the plan; then nothing has been changed.
        """
        checkpoint = await anyio.to_thread.run_sync(self.get, plan.checkpoint)
        await anyio.to_thread.run_sync(self._check, plan)
        if not plan.files:
            return []
        title = f"Rollback to before {checkpoint.title or checkpoint.id}"
        own = await self.begin(plan.run, session=checkpoint.session, title=title)
        await self.touch(own.id, *(file.path for file in plan.files), as_known=True)
        return [
            await anyio.to_thread.run_sync(self._roll_back, plan, checkpoint, file) for file in plan.files
        ]

    def _check(self, plan: Plan) -> None:
        for file in plan.files:
            found = self._ledger.get(file.path).rev
            if found != file.rev:
                raise StaleRevision(
                    f"{file.path} is at revision {found}, and the rollback was planned for {file.rev}. Plan it anew."
                )

    def _roll_back(self, plan: Plan, checkpoint: Checkpoint, file: FilePlan) -> FileReview:
        step = self._step(plan, checkpoint, file.path)
        changed = self._ledger.change(
            file.path, "rollback", lambda _: step.after, rev=file.rev, hunks=file.hunks, run=plan.run
        )
        return changed.review

    def _step(self, plan: Plan, checkpoint: Checkpoint, path: str) -> _Step:
        review, entries = self._read(path)
        if plan.mode == "hard_all":
            before = _before_of(checkpoint, path)
            then = _then(review, entries, checkpoint, before)
            after = _as_then(review, then) if then else restored(review, self._lines(before), _hunk_id)
            names = tuple(hunk.id for hunk in review.hunks if hunk not in after.hunks)
            return _Step(review, review if _is_same(review, after) else after, names)
        return _taken_back(review, plan.hunk_ids, checkpoint.run, _made(entries, checkpoint.run))

    def _read(self, path: str) -> tuple[FileReview, list[Entry]]:
        """A review, and its journal up to there."""
        review = self._ledger.get(path)
        entries = self._ledger.entries(path=path)
        return review, [each for each in entries if each.rev <= review.rev]

    def _lines(self, before: Before) -> Lines:
        return lines_of(self._ledger.blob(before.blob), before.mode) if before.blob else ()


def _hunk_id() -> str:
    return f"h_{new_id()[:16]}"


def _before_of(checkpoint: Checkpoint, path: str) -> Before:
    for before in checkpoint.files:
        if before.path == path:
            return before
    raise UnknownCheckpoint(f"Checkpoint {checkpoint.id} knows nothing of {path}.")


def _text(lines: Lines) -> str | None:
    content = content_of(lines)
    return None if content is None or is_blob(lines) else content.data.decode()


def _is_same(one: FileReview, other: FileReview) -> bool:
    """Whether nothing differs but the names of hunks."""
    return [msgspec.structs.replace(hunk, id="") for hunk in one.hunks] == [
        msgspec.structs.replace(hunk, id="") for hunk in other.hunks
    ]


# -- hard: all of the file ----------------------------------------------------------------------------


def _rewound(review: FileReview, entries: Sequence[Entry]) -> FileReview:
    """The review before the last ``entries`` of its journal."""
    for each in reversed(entries):
        review = patched(review, reverse(each.forward))
    return review


def _then(
    review: FileReview, entries: Sequence[Entry], checkpoint: Checkpoint, before: Before
) -> FileReview | None:
    """The review when a checkpoint was taken: the last one, before the run changed it, whose buffer is the file that the
    checkpoint has, or else whose base is. None if the ledger did not know the file then.
    """
    first = next((n for n, each in enumerate(entries) if each.run == checkpoint.run), len(entries))
    then = [_rewound(review, entries[first:])]
    for each in reversed(entries[:first]):
        if each.ts < checkpoint.created:
            break
        then.append(patched(then[-1], reverse(each.forward)))
    by_buffer = (each for each in then if _is(buffer(each), before))
    by_base = (each for each in then if _is(each.base, before))
    return next(by_buffer, None) or next(by_base, None)


def _is(lines: Lines, before: Before) -> bool:
    """Whether lines make the file that a checkpoint has."""
    content = content_of(lines)
    if content is None or not before.blob:
        return content is None and not before.blob
    return text_hash(lines) == f"sha256:{before.blob}" and content.mode == before.mode


def _as_then(review: FileReview, then: FileReview) -> FileReview:
    """The review with the buffer that it had then; what had not been decided then is not decided by it."""
    if review.base == then.base:
        return msgspec.structs.replace(review, hunks=then.hunks, rev=review.rev + 1)
    after = restored(review, buffer(then), _hunk_id)
    open_then = [
        each for each in placed(then) if each.hunk.state == "pending" and each.hunk.top.origin == "agent"
    ]
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
        run=proposals[0].top.run,
        edits=tuple(name for each in proposals for name in each.top.edits),
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


def _taken_back(review: FileReview, ids: Sequence[str], run: str, made: Mapping[str, Hunk]) -> _Step:
    """Without those hunks of a run, wherever they are: still under review, or in the file already."""
    proposed = {
        hunk.id for hunk in review.hunks if hunk.id in made or any(layer.run == run for layer in hunk.layers)
    }
    standing = {one.id for one in review.applied if one.run == run or one.id in made} - proposed
    after = review
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
        tried(name, partial(reverted, after, [name], _hunk_id))
    if free := [name for name in saved if name in gone]:
        after = reverted(after, free, _hunk_id)
    return _Step(review, after, tuple(gone), tuple(conflicts))


def _withdrawn(review: FileReview, hunk_id: str, run: str, made: Hunk | None) -> FileReview:
    """Without what a run wrote into a hunk; ``made`` is the hunk as a rollback put it there. Raises ``Conflict`` where
    something newer stands on it.
    """
    hunk = review.hunk(hunk_id)
    if hunk.state == "rejected":
        return review
    if hunk.layers != made.layers if made else hunk.top.run != run:
        raise Conflict(f"{review.path}: hunk {hunk_id} was written over since; decide it by itself.")
    left = () if made else hunk.layers
    while left and left[-1].run == run:
        left = left[:-1]
    new = (msgspec.structs.replace(hunk, state="rejected"),)
    if left:
        new = tidied(review.base, msgspec.structs.replace(hunk, layers=left, state="pending"))
    hunks = tuple(each for old in review.hunks for each in (new if old.id == hunk_id else (old,)))
    return msgspec.structs.replace(review, hunks=hunks, rev=review.rev + 1)
