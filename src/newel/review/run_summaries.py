"""What runs have changed, in numbers.

A list of runs shows how many lines each has changed in which files, and must not take longer the more they are. The journal tells that
of a file which a run changed in one step, the usual case; only in other cases are the texts before and after the run compared.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import anyio.to_thread
import msgspec

from newel.diff.unified import changed_lines, line_counts
from newel.review.model.file_kinds import described
from newel.review.model.file_lines import head_of, kind_of, text_hash
from newel.review.model.file_review import FileReview
from newel.review.model.patch import file_patch, patch_size
from newel.review.project import DifferingFile, ProjectReview, RunView, differing_files
from newel.review.renames import find_renames
from newel.review.save import RefreshResult
from newel.review.store.ledger import Checkpoint, FileVersion
from newel.review.store.line_counts import RecordedLines, recorded_lines


class FileSummary(msgspec.Struct, frozen=True):
    """A file that a run changed; a renamed one is ``old → new``. ``size`` counts its lines, as ``line_counts``; ``about`` and ``state`` are
    those of ``RunFile``. The texts are not inert.
    """

    name: str
    size: str
    about: str
    state: str


class RunCounts(msgspec.Struct, frozen=True):
    """A run with the files that differ after it."""

    checkpoint_id: str
    created_at: str
    title: str
    files: tuple[FileSummary, ...]


def summary_of(run: RunView) -> RunCounts:
    """The numbers of a run whose patches are known."""
    files = [
        _SummarizedFile(file.file_path, file.patch, changed_lines(file.patch), file.about, file.state)
        for file in run.files
    ]
    return RunCounts(run.checkpoint_id, run.created_at, run.title, tuple(_named(files)))


async def summarize_runs(
    project: ProjectReview, checkpoints: Sequence[Checkpoint], refreshed: RefreshResult
) -> list[RunCounts]:
    """The numbers of runs, on the files as they were ``refreshed``. Raises ``LedgerError``."""
    return [
        await anyio.to_thread.run_sync(_summarize, project, checkpoint, refreshed)
        for checkpoint in checkpoints
    ]


def _summarize(project: ProjectReview, checkpoint: Checkpoint, refreshed: RefreshResult) -> RunCounts:
    steps = recorded_lines(project.ledger, checkpoint.run)
    reviews = {review.path: review for review in refreshed.reviews}
    known: dict[str, FileSummary] = {}
    for before in checkpoint.files:
        review = reviews.get(before.path)
        if review is not None and (summary := _from_journal(before, review, steps.get(before.path, ()))):
            known[before.path] = summary
    rest = msgspec.structs.replace(
        checkpoint, files=tuple(before for before in checkpoint.files if before.path not in known)
    )
    files = [*map(_compared, differing_files(project, rest, refreshed))] if rest.files else []
    compared = _named(files)
    summaries = sorted([*known.values(), *compared], key=lambda file: file.name.rpartition(" → ")[2])
    return RunCounts(checkpoint.id, checkpoint.created, checkpoint.title, tuple(summaries))


class _SummarizedFile(NamedTuple):
    """A file before renames are found by the patches of those that came or went; that of any other file may be empty."""

    path: str
    patch: str
    size: str
    about: str
    state: str


def _compared(file: DifferingFile) -> _SummarizedFile:
    """Writes no patch of a file that only has other lines."""
    base, proposed, _ = file.versions
    may_be_renamed = kind_of(base) != kind_of(proposed) or None in {head_of(base), head_of(proposed)}
    patch = file_patch(file.path, base, proposed) if may_be_renamed else ""
    size = line_counts(*patch_size(base, proposed))
    return _SummarizedFile(file.path, patch, size, described(base, proposed).about, file.state)


def _from_journal(
    before: FileVersion, review: FileReview, steps: Sequence[RecordedLines]
) -> FileSummary | None:
    """The numbers of a file that a run changed in one step, from the state that its checkpoint has; None for all others."""
    if len(steps) != 1 or review.hunks or stat.S_IFMT(before.mode):
        return None
    step = steps[0]
    was = f"sha256:{before.blob}"
    if step.kind != "record" or not step.is_plain or step.hash_before != was or step.hash_after == was:
        return None
    now = text_hash(review.base)
    has_mode = head_of(review.base) == before.mode
    state = "undone" if now == was else "" if now == step.hash_after else "changed since"
    size = line_counts(step.added, step.removed)
    return FileSummary(before.path, size, "", state if has_mode else "changed since")


def _named(files: Sequence[_SummarizedFile]) -> Iterator[FileSummary]:
    """The files with their facts; a renamed one once, as ``old → new``."""
    old_names = find_renames({file.path: file.patch for file in files})
    for file in files:
        old = old_names.get(file.path)
        if file.path in old_names.values():
            continue
        name = f"{old} → {file.path}" if old else file.path
        yield FileSummary(name, "renamed" if old else file.size, file.about, file.state)
