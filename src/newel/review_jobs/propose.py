"""A model's edits become hunks of the ledger: those of one call all, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import anyio
import anyio.to_thread
import msgspec

from newel.agent.formatting import pluralize
from newel.review.model.file_lines import text_hash
from newel.review.model.file_review import (
    Conflict,
    Contested,
    FileReview,
    ReviewError,
    StaleRevision,
    new_hunk_id,
)
from newel.review.model.history import HistoryEntry, NothingToUndo
from newel.review.model.proposal import propose
from newel.review.paths import checked_path
from newel.review.serialize import is_of
from newel.review.store.ledger import Ledger
from newel.review_jobs.dependencies import ReviewDependencies
from newel.review_jobs.journal import JobEvent, JobJournal, event
from newel.review_jobs.overlay_workspace import OverlayWorkspace
from newel.tools.review import ProposedEdit


class ProposalOutcome(NamedTuple):
    """What one call came to; its entries in the ledger are not told in the job's journal yet."""

    edits: list[ProposedEdit]
    entries: list[HistoryEntry]
    base_file_hashes: dict[str, str]


class Proposer:
    """The edits of one job."""

    def __init__(self, bench: ReviewDependencies, journal: JobJournal, staged: OverlayWorkspace) -> None:
        self._journal = journal
        self._ledger = bench.ledger
        self._saver = bench.saver
        self._checkpoints = bench.checkpoints
        self._staged = staged
        self._size = bench.limits.hunks
        self._lock = anyio.Lock()
        self.call = ""
        """The id of the call under way; its tool runs beside no other."""
        self.outcomes: dict[str, ProposalOutcome | None] = {}
        """What came of the calls that reached this job's files, by their ids: None of one that was refused."""

    async def propose(self, edits: Sequence[ProposedEdit]) -> str:
        """Put edits into the ledger; returns words for the model. Raises ``ReviewError``, and then nothing has changed."""
        async with self._lock:
            try:
                proposed = await self._propose(edits)
            except (Conflict, Contested, StaleRevision) as error:
                self.outcomes[self.call] = None
                await self._journal.append(await self._conflict(edits, str(error)))
                raise
            except Exception:
                self.outcomes[self.call] = None
                raise
            self.outcomes[self.call] = proposed
        files = ", ".join(proposed.base_file_hashes)
        return (
            f"Proposed {pluralize(len(edits), 'edit')} of {files}. They are shown to the user for review. "
            "Line numbers have moved: read a file again before you propose more changes of it."
        )

    async def _propose(self, edits: Sequence[ProposedEdit]) -> ProposalOutcome:
        by_path: dict[str, list[ProposedEdit]] = {}
        for each in edits:
            by_path.setdefault(await checked_path(self._staged, each.file_path), []).append(each)
        reviews = {path: await self._checked(path, mine) for path, mine in by_path.items()}
        checkpoint = self._journal.state.checkpoint_id
        entries: list[HistoryEntry] = []
        try:
            for path, mine in by_path.items():
                if checkpoint is not None:
                    await self._checkpoints.touch(checkpoint, path, as_known=True)
                entries += await anyio.to_thread.run_sync(
                    self._put, path, mine, reviews[path].rev, abandon_on_cancel=False
                )
        except ReviewError:  # another window was quicker with one of the files
            await anyio.to_thread.run_sync(self._take_back, entries)
            raise
        for path in by_path:
            self._staged.forget(path)
        return ProposalOutcome(
            list(edits), entries, {path: text_hash(review.base) for path, review in reviews.items()}
        )

    async def _checked(self, path: str, edits: Sequence[ProposedEdit]) -> FileReview:
        """The file as it is now, once it is sure that the edits fit it."""
        as_seen = await self._staged.is_as_seen(path)
        review = await self._saver.refresh(path)
        if not as_seen and any(each.expected_hash is None for each in edits):
            self._staged.forget(path)
            raise Conflict(
                f"{path} has changed since it was read in this job. Read it anew and propose edits of what it says now."
            )
        propose(review, edits, run=self._journal.job, new_id=new_hunk_id, size=self._size)
        return review

    def _put(self, path: str, edits: Sequence[ProposedEdit], rev: int) -> list[HistoryEntry]:
        make = partial(propose, edits=edits, run=self._journal.job, new_id=new_hunk_id, size=self._size)
        made = self._ledger.change(path, "propose", make, rev=rev, run=self._journal.job).entry
        return [made] if made is not None else []

    async def take_back(self) -> bool:
        """Take back what stands in the ledger and not in the job's journal: the process died, or the job was put aside, in
        the midst of a call. False if that cannot be, as somebody has worked on it since; then what came of it is unknown.
        """
        return await anyio.to_thread.run_sync(self._take_back_untold)

    def _take_back_untold(self) -> bool:
        mine = self._ledger.entries(run=self._journal.job)
        untold = [
            each for each in mine if each.kind == "propose" and each.id not in self._journal.state.entries
        ]
        return self._take_back(untold)

    def _take_back(self, entries: Sequence[HistoryEntry]) -> bool:
        whole = True
        for each in reversed(entries):
            history = self._ledger.entries(path=each.path)
            undone = {one.of for one in history if one.kind == "undo"}
            if each.id in undone:
                continue
            try:
                if history[-1].id != each.id:
                    whole = False
                else:
                    self._ledger.undo(each.path, rev=each.rev)
            except (NothingToUndo, StaleRevision):
                whole = False
        return whole

    async def _conflict(self, edits: Sequence[ProposedEdit], words: str) -> JobEvent:
        paths = sorted({each.file_path for each in edits})
        reviews = [await anyio.to_thread.run_sync(self._ledger.get, path) for path in paths]
        return event(
            "conflict.detected",
            message=words,
            edit_ids=[each.edit_id for each in edits],
            base_file_hashes={review.path: text_hash(review.base) for review in reviews},
        )


def told(proposed: ProposalOutcome) -> JobEvent:
    """The event that says what a call proposed."""
    return event(
        "edits.proposed",
        edits=[msgspec.to_builtins(each) for each in proposed.edits],
        entries=[each.id for each in proposed.entries],
        base_file_hashes=proposed.base_file_hashes,
    )


def reviews_of(ledger: Ledger, run: str, paths: Sequence[str]) -> list[FileReview]:
    """The files in which a run has hunks, open or saved, among ``paths``."""
    reviews = [ledger.get(path) for path in paths]
    return [
        review
        for review in reviews
        if any(is_of(hunk, run) for hunk in review.hunks) or any(one.run == run for one in review.applied)
    ]
