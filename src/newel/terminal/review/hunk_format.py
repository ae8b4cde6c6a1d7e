"""Hunks under review as text. All results are inert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from newel.agent.formatting import pluralize
from newel.diff.unified import changed_lines
from newel.review.decide import overwritten_paths, patch_of, run_of
from newel.review.hunk_warnings import hunk_warning
from newel.terminal.commands import CommandFormatter, full_review_command
from newel.terminal.review.review_ui import SHOWN, DiffLimit, shortened
from newel.text.format import join_names
from newel.text.sanitize import escape_line

if TYPE_CHECKING:
    from newel.review.decide import DecisionProblem, PendingReviews, SaveReport, Selection
    from newel.review.model.file_review import FileReview, Hunk
    from newel.review.store.ledger import Checkpoint

LISTED = 20
"""Files listed for their rejected hunks alone."""

STATES = {"pending": "pending", "accepted": "kept, not written yet", "rejected": "rejected"}

Runs = Mapping[str, "Checkpoint"]
"""The checkpoints of runs, by the run."""


def hunk_diff(review: FileReview, hunk: Hunk, rest: str, limit: DiffLimit = SHOWN) -> str:
    """The diff of a hunk with its context, and changes of the file itself. ``rest`` is the command that shows a diff too
    long for ``limit``.
    """
    lines = patch_of(review, [hunk]).split("\n")[1:]  # without the names, which stand above it
    first = next((n for n, line in enumerate(lines) if line.startswith("@@")), len(lines))
    head = [line for line in lines[:first] if not line.startswith(("--- ", "+++ "))]
    return shortened("\n".join([*head, *lines[first:]]), rest, limit).rstrip("\n")


def whose(hunk: Hunk, runs: Runs) -> str:
    """The author of a hunk: a run by its title, or the user."""
    if hunk.by_user:
        return "yours"
    run = run_of(hunk)
    title = runs.get(run)
    name = escape_line(title.title, 60) if title and title.title else f"run {escape_line(run, 40)}"
    return f"{name}, edited by you" if hunk.has_user_layer else name


def hunk_facts(review: FileReview, hunk: Hunk, runs: Runs) -> str:
    """``pending · changes an existing test · rename the option``: the state, a warning, and the origin of a hunk."""
    state = "conflict" if hunk.conflict and hunk.state == "pending" else STATES[hunk.state]
    facts = [state, hunk_warning(review, hunk), whose(hunk, runs), "large" if hunk.oversized else ""]
    return " · ".join(filter(None, facts))


def describe_pending(
    pending: PendingReviews, runs: Runs, format_command: CommandFormatter, limit: DiffLimit = SHOWN
) -> str:
    """The pending hunks by file; empty if there are none. ``format_command`` writes commands for the user."""
    blocks: list[str] = []
    rejected: list[str] = []
    rest = full_review_command(format_command)
    for review in pending.reviews:
        rejected_ids = [hunk.id for hunk in review.hunks if hunk.state == "rejected"]
        if rejected_ids:
            rejected.append(f"  {escape_line(review.path)}  {', '.join(rejected_ids)}")
        for hunk in review.hunks:
            if hunk.state != "rejected":
                where = f"  {escape_line(review.path)}  {hunk.id}  {hunk_facts(review, hunk, runs)}"
                blocks.append(f"{where}\n{hunk_diff(review, hunk, rest, limit)}\n")
    lines = (
        [f"{pluralize(len(blocks), 'pending hunk')} (`{format_command('decide')}`):\n", *blocks]
        if blocks
        else []
    )
    lines += describe_problems(pending.problems)
    if rejected:
        lines += [f"Rejected (`{format_command('keep HUNK')}` restores one):", *rejected[:LISTED]]
        lines += (
            [f"  … and {pluralize(len(rejected) - LISTED, 'file')} more"] if len(rejected) > LISTED else []
        )
    return "\n".join([*lines, ""]) if lines else ""


def describe_choice(choice: Selection, format_command: CommandFormatter) -> str:
    """The hunks of a decision with the diff of each file, and those it skips."""
    lines: list[str] = []
    for review, hunks in choice.picks.values():
        lines.append(shortened(patch_of(review, hunks), full_review_command(format_command)).rstrip("\n"))
    verb = "kept and written" if choice.verdict == "keep" else "rejected"
    if choice.picks:
        counts = {path: len(hunks) for path, (_, hunks) in choice.picks.items()}
        lines.append(f"{_count_hunks(counts)} would be {verb}:")
        lines += [
            f"  {escape_line(path)}  {', '.join(hunk.id for hunk in hunks)}"
            for path, (_, hunks) in choice.picks.items()
        ]
    if choice.verdict == "keep":
        lines += _describe_overwritten([review for review, _ in choice.picks.values()], choice.hunks)
    return "\n".join([*lines, *describe_problems(choice.left)])


def to_be_written(reviews: Sequence[FileReview], hunks: Mapping[str, Sequence[str]]) -> str:
    """The files that would be written, with their numbers of hunks."""
    rows = [
        f"  {escape_line(review.path)}  {pluralize(len(ids), 'hunk')}  "
        + changed_lines(patch_of(review, [hunk for hunk in review.hunks if hunk.id in ids]))
        for review in reviews
        if (ids := hunks.get(review.path))
    ]
    return "\n".join(
        ["To be written:", *(row.rstrip() for row in rows), *_describe_overwritten(reviews, hunks)]
    )


def _describe_overwritten(reviews: Sequence[FileReview], hunks: Mapping[str, Sequence[str]]) -> list[str]:
    """A warning about kept conflicts, by file."""
    paths = overwritten_paths(reviews, hunks)
    return [f"This overwrites lines that changed on disk: {join_names(paths)}."] if paths else []


def describe_written(written: SaveReport, format_command: CommandFormatter) -> str:
    """The written files, and the problems."""
    lines: list[str] = []
    if written.saved:
        names = join_names(file.path for file in written.saved)
        lines.append(f"Kept {_count_hunks({file.path: file.applied for file in written.saved})}: {names}.")
    lines += describe_problems(written.problems)
    if written.problems:
        lines.append(f"Your decisions are saved; `{format_command('decide')}` offers to write them again.")
    return "\n".join(lines)


def describe_rejected(counts: Mapping[str, int], format_command: CommandFormatter) -> str:
    """A sentence on the rejected hunks; empty if there are none."""
    if not counts:
        return ""
    return f"Rejected {_count_hunks(counts)}: {join_names(counts)}. `{format_command('keep HUNK')}` restores one."


def describe_peeled(counts: Mapping[str, int]) -> str:
    """A sentence on the hunks whose user lines were dropped; empty if there are none."""
    return (
        f"Dropped your own lines in {_count_hunks(counts)}; the agent's proposal is pending again."
        if counts
        else ""
    )


def describe_problems(problems: Sequence[DecisionProblem]) -> list[str]:
    """One line for each skipped file."""
    return [
        f"Skipped {escape_line(problem.path)}: {escape_line(problem.reason, 400)}" for problem in problems
    ]


def _count_hunks(counts: Mapping[str, int]) -> str:
    return f"{pluralize(sum(counts.values()), 'hunk')} in {pluralize(len(counts), 'file')}"
