"""The sink for changes that are in the project's files already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import anyio.to_thread
import msgspec

from newel.review.model.file_lines import lines_of_state, spans_of
from newel.review.model.file_review import AppliedHunk, FileReview, Hunk, Layer, Lines, new_hunk_id, render
from newel.review.model.history import earlier
from newel.review.model.rebase import rebased
from newel.review.save_plans import file_version
from newel.review.store.ledger import Ledger
from newel.text.format import join_names
from newel.workspace.snapshots.port import FileChange
from newel.workspace.snapshots.tree import FileSnapshot
from newel.workspace.snapshots.uncovered import UncoveredChanges

SHOWN: Final = 6
"""Names in a message."""

BATCH: Final = 200
"""Changes of files in one transaction; other processes wait for that long."""


class AppliedSink:
    """The change is in the project's file already: it becomes an applied hunk, which can be undone."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def not_covered(self, message: str) -> str:
        return message

    def describe_uncovered(self, uncovered: UncoveredChanges) -> list[str]:
        lines: list[str] = []
        if uncovered.trusted:
            names = join_names(uncovered.trusted, shown=SHOWN)
            lines.append(
                f"Changed, but not recorded: {names}. Git obeys these files, so look at them before you use it."
            )
        if uncovered.files:
            names = join_names(uncovered.files, shown=SHOWN)
            lines.append(f"Changed, but not recorded, so undo does not restore it: {names}.")
        if uncovered.deleted:
            names = join_names(uncovered.deleted, shown=SHOWN)
            lines.append(f"Deleted, but not recorded, so undo does not restore it: {names}.")
        if uncovered.unchecked:
            names = join_names(uncovered.unchecked, shown=SHOWN)
            lines.append(f"Not recorded, and too large to be looked at for changes: {names}.")
        return lines

    async def new_folders(self, folders: Sequence[str]) -> Sequence[str]:
        return folders

    def new(self, changes: Sequence[FileChange], *, since: str) -> list[FileChange]:
        """Without what Newel itself changed and recorded meanwhile, perhaps in another process."""
        rest = (self._without_recorded(change, since) for change in changes)
        return [change for change in rest if change.before != change.after]

    def _without_recorded(self, change: FileChange, since: str) -> FileChange:
        """The part of a change that follows the last record of the file; all of it if there is none since a time."""
        review = self._ledger.get(change.path)
        entries = [
            entry for entry in self._ledger.entries_since(change.path, since) if entry.rev <= review.rev
        ]
        revs = [entry.rev for entry in entries if entry.kind in {"record", "save"}]
        if not revs:
            return change
        as_recorded = earlier(review, entries, revs[-1]).base
        version = file_version(self._ledger, change.path, as_recorded)
        state = FileSnapshot(version.blob, version.mode) if version.blob else None
        return msgspec.structs.replace(change, before=state)

    async def put(self, run: str, changes: Sequence[FileChange], prepare: Callable[[], None]) -> list[str]:
        await anyio.to_thread.run_sync(self._record, run, changes, prepare)
        return []

    def _record(self, run: str, changes: Sequence[FileChange], prepare: Callable[[], None]) -> None:
        for at in range(0, len(changes), BATCH):
            with self._ledger.batch():
                if at == 0:
                    prepare()
                for change in changes[at : at + BATCH]:
                    self._put_one(run, change)

    def _put_one(self, run: str, change: FileChange) -> None:
        before = lines_of_state(change.before, self._ledger.find_blob)
        after = lines_of_state(change.after, self._ledger.find_blob)
        # Changes of the file by others until then are not part of the run.
        self._ledger.change(change.path, "rebase", partial(rebased, base=before))
        make = partial(recorded, before=before, after=after, run=run)
        self._ledger.change(change.path, "record", make, run=run)


def recorded(review: FileReview, *, before: Lines, after: Lines, run: str) -> FileReview:
    """The review after a run changed a file from ``before`` to ``after``, whatever the review knew of it.

    If the run changes lines that it changed before, both changes become one hunk, so that the run can be undone
    as a whole.
    """
    current = rebased(review, before)
    own_hunks = [hunk for hunk in current.applied if hunk.run == run and hunk.intact]
    if not own_hunks:
        return rebased(current, after, run=run, new_id=new_hunk_id)
    done = rebased(current, after)
    if done is current:
        return current
    without = render(
        current.base, [_undone(hunk) for hunk in sorted(own_hunks, key=lambda hunk: (hunk.a, hunk.b))]
    )
    names = {hunk.id for hunk in own_hunks}
    others = (hunk for hunk in done.applied if hunk.id not in names)
    fresh = (
        AppliedHunk(id=new_hunk_id(), a=span.b0, b=span.b1, before=without[span.a0 : span.a1], run=run)
        for span in spans_of(without, after)
    )
    return msgspec.structs.replace(done, applied=(*others, *fresh), rev=review.rev + 1)


def _undone(hunk: AppliedHunk) -> Hunk:
    return Hunk(id=hunk.id, a=hunk.a, b=hunk.b, layers=(Layer(origin="agent", lines=hunk.before),))
