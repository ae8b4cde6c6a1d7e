"""Turns a model's edits into hunks of the ledger: those of one call all, or none of them."""

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
    FileReview,
    ReviewError,
    StaleRevision,
    UserEditConflict,
    new_hunk_id,
)
from newel.review.model.history import HistoryEntry, NothingToUndo
from newel.review.model.proposal import propose
from newel.review.model.revision import OutsideHunk, revised
from newel.review.paths import checked_path
from newel.review.serialize import is_of
from newel.review.store.ledger import Ledger
from newel.review_jobs.dependencies import ReviewDependencies
from newel.review_jobs.journal import JobEvent, JobJournal, event
from newel.review_jobs.overlay_workspace import OverlayWorkspace
from newel.tools.review import ProposedEdit


class ProposalOutcome(NamedTuple):
    """The result of one call, whose ledger entries are not in the job's journal yet."""

    edits: list[ProposedEdit]
    entries: list[HistoryEntry]
    base_file_hashes: dict[str, str]


class Proposer:
    """Proposes the edits of one job."""

    def __init__(
        self, dependencies: ReviewDependencies, journal: JobJournal, overlay: OverlayWorkspace
    ) -> None:
        self._journal = journal
        self._ledger = dependencies.ledger
        self._saver = dependencies.saver
        self._checkpoints = dependencies.checkpoints
        self._overlay = overlay
        self._size = dependencies.limits.hunks
        self._lock = anyio.Lock()
        self.call = ""
        """The id of the running call; its tool never runs concurrently."""
        self.outcomes: dict[str, ProposalOutcome | None] = {}
        """The outcomes of well-formed calls, by id; None for one that did not fit the files."""

    async def propose(self, edits: Sequence[ProposedEdit]) -> str:
        """Add edits to the ledger and return the tool's result. Raises ``ReviewError``; then nothing has changed."""
        async with self._lock:
            try:
                outcome = await self._propose(edits)
            except (Conflict, UserEditConflict, StaleRevision) as error:
                self.outcomes[self.call] = None
                await self._journal.append(await self._conflict_event(edits, str(error)))
                raise
            except Exception:
                self.outcomes[self.call] = None
                raise
            self.outcomes[self.call] = outcome
        files = ", ".join(outcome.base_file_hashes)
        return (
            f"Proposed {pluralize(len(edits), 'edit')} of {files} for the user to review. "
            "Line numbers have changed: read a file again before you propose more edits of it."
        )

    async def _propose(self, edits: Sequence[ProposedEdit]) -> ProposalOutcome:
        by_path: dict[str, list[ProposedEdit]] = {}
        scope = self._journal.params.revise
        for edit in edits:
            by_path.setdefault(await checked_path(self._overlay, edit.file_path), []).append(edit)
        if scope is not None and (others := sorted(by_path.keys() - {scope.file_path})):
            raise OutsideHunk(
                f"This task is about one hunk of {scope.file_path}; {others[0]} stays as it is."
            )
        reviews = {path: await self._validate(path, edits_of_file) for path, edits_of_file in by_path.items()}
        checkpoint = self._journal.state.checkpoint_id
        entries: list[HistoryEntry] = []
        try:
            for path, edits_of_file in by_path.items():
                if checkpoint is not None:
                    await self._checkpoints.touch(checkpoint, path, as_known=True)
                entries += await anyio.to_thread.run_sync(self._add, path, edits_of_file, reviews[path].rev)
        except ReviewError:  # one of the files has changed since it was validated
            await anyio.to_thread.run_sync(self._withdraw, entries)
            raise
        for path in by_path:
            self._overlay.mark_stale(path)
        return ProposalOutcome(
            list(edits), entries, {path: text_hash(review.base) for path, review in reviews.items()}
        )

    async def _validate(self, path: str, edits: Sequence[ProposedEdit]) -> FileReview:
        """The file's current review, if the edits fit it."""
        is_as_read = await self._overlay.is_as_read(path)
        review = await self._saver.refresh(path)
        if not is_as_read and any(edit.expected_hash is None for edit in edits):
            self._overlay.mark_stale(path)
            raise Conflict(
                f"{path} has changed since this job read it. Read it again and base the edits on its current content."
            )
        self._proposed(review, edits)
        return review

    def _proposed(self, review: FileReview, edits: Sequence[ProposedEdit]) -> FileReview:
        run, scope = self._journal.job, self._journal.params.revise
        if scope is not None:
            return revised(review, scope.hunk_id, edits, run=run, size=self._size)
        return propose(review, edits, run=run, new_id=new_hunk_id, size=self._size)

    def _add(self, path: str, edits: Sequence[ProposedEdit], rev: int) -> list[HistoryEntry]:
        make = partial(self._proposed, edits=edits)
        entry = self._ledger.change(path, "propose", make, rev=rev, run=self._journal.job).entry
        return [entry] if entry is not None else []

    async def withdraw_unrecorded(self) -> bool:
        """Undo proposals that the ledger has and the job's journal lacks: the process died, or the job was suspended, during
        a call. False if one cannot be undone because the file has changed since; its outcome is unknown then.
        """
        return await anyio.to_thread.run_sync(self._withdraw_unrecorded)

    def _withdraw_unrecorded(self) -> bool:
        recorded = self._journal.state.entries
        entries = self._ledger.entries(run=self._journal.job)
        return self._withdraw(
            [entry for entry in entries if entry.kind == "propose" and entry.id not in recorded]
        )

    def _withdraw(self, entries: Sequence[HistoryEntry]) -> bool:
        is_complete = True
        for entry in reversed(entries):
            history = self._ledger.entries(path=entry.path)
            if any(later.kind == "undo" and later.of == entry.id for later in history):
                continue
            try:
                if history[-1].id != entry.id:
                    is_complete = False
                else:
                    self._ledger.undo(entry.path, rev=entry.rev)
            except (NothingToUndo, StaleRevision):
                is_complete = False
        return is_complete

    async def _conflict_event(self, edits: Sequence[ProposedEdit], message: str) -> JobEvent:
        paths = sorted({edit.file_path for edit in edits})
        reviews = [await anyio.to_thread.run_sync(self._ledger.get, path) for path in paths]
        return event(
            "conflict.detected",
            message=message,
            edit_ids=[edit.edit_id for edit in edits],
            base_file_hashes={review.path: text_hash(review.base) for review in reviews},
        )


def proposed_event(outcome: ProposalOutcome) -> JobEvent:
    return event(
        "edits.proposed",
        edits=msgspec.to_builtins(outcome.edits),
        entries=[entry.id for entry in outcome.entries],
        base_file_hashes=outcome.base_file_hashes,
    )


def reviews_of(ledger: Ledger, run: str, paths: Sequence[str]) -> list[FileReview]:
    """The files of ``paths`` with hunks of a run, open or saved."""
    reviews = [ledger.get(path) for path in paths]
    return [
        review
        for review in reviews
        if any(is_of(hunk, run) for hunk in review.hunks) or any(hunk.run == run for hunk in review.applied)
    ]
