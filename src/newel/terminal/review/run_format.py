"""The runs of agents and their changes as text, and their undo."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import anyio.to_thread

from newel.agent.formatting import pluralize
from newel.diff.unified import changed_lines
from newel.terminal.commands import CommandFormatter, full_review_command
from newel.terminal.review.review_ui import (
    NO_CHANGES,
    SHOWN,
    UNCHANGED,
    WHOLE,
    DiffLimit,
    ReviewUI,
    shortened,
)
from newel.text.format import join_names
from newel.text.sanitize import escape_line

if TYPE_CHECKING:
    from newel.review.checkpoints import RollbackPlan
    from newel.review.project import ProjectReview, RunFile, RunView
    from newel.review.save import Saved
    from newel.review.store.ledger import Checkpoint

SHOWN_IN_CONVERSATION = DiffLimit(60, 6_000)
"""How much of a run's diff a conversation shows."""

ROWS = 20
"""Files listed of a run."""


def run_line(checkpoint_id: str, created: str, title: str) -> str:
    """A run on one line: its checkpoint, when it began, and its prompt."""
    when = datetime.fromisoformat(created).astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{checkpoint_id}  {when}  {escape_line(title, 80) or '(no prompt)'}"


def list_checkpoints(checkpoints: Sequence[Checkpoint]) -> str:
    lines = [
        f"{run_line(checkpoint.id, checkpoint.created, checkpoint.title)}  ({pluralize(len(checkpoint.files), 'file')})"
        for checkpoint in checkpoints
    ]
    return "\n".join(lines) or NO_CHANGES


async def describe_project(
    project: ProjectReview, limit: int, format_command: CommandFormatter, *, in_conversation: bool = False
) -> str:
    """The pending hunks of a project and its latest runs, the last one with its diff, which is cut ``in_conversation``. Raises
    ``LedgerError``.
    """
    from newel.review.decide import checkpoints_by_run, load_pending
    from newel.review.project import recent_runs
    from newel.terminal.review.hunk_format import describe_pending

    names = await anyio.to_thread.run_sync(checkpoints_by_run, project.ledger)
    parts = [
        describe_pending(
            await load_pending(project), names, format_command, SHOWN if in_conversation else WHOLE
        )
    ]
    runs = await recent_runs(project, limit=limit)
    shown = SHOWN_IN_CONVERSATION if in_conversation else WHOLE
    parts += [describe_run(run, format_command, shown) if run is runs[0] else _head(run) for run in runs]
    if len(runs) > 1:
        parts.append(f"`{format_command(f'review {runs[1].checkpoint_id}')}` shows another run.")
    parts += [escape_line(notice, 400) for notice in project.left_out]
    return "\n".join(part for part in parts if part).rstrip("\n") or NO_CHANGES


async def describe_checkpoint(
    project: ProjectReview,
    checkpoint: str,
    format_command: CommandFormatter,
    *,
    in_conversation: bool = False,
) -> str:
    """A run with its diff, by its checkpoint's ID or the beginning of it. Raises ``UnknownCheckpoint``."""
    from newel.review.project import load_run

    run = await load_run(project, await project.find(checkpoint))
    return describe_run(run, format_command, SHOWN_IN_CONVERSATION if in_conversation else WHOLE).rstrip("\n")


def describe_run(run: RunView, format_command: CommandFormatter, limit: DiffLimit) -> str:
    """A run with its files and its diff, cut to ``limit``."""
    # Files that are wholly pending are shown hunk by hunk, above.
    patches = [file.patch for file in run.files if not _is_all_waiting(file)]
    return f"{_head(run)}\n{shortened(''.join(patches), full_review_command(format_command, run.checkpoint_id), limit)}"


def _head(run: RunView) -> str:
    """A run and its files, each with the size of its change."""
    width = max((len(escape_line(file.file_path)) for file in run.files[:ROWS]), default=0)
    lines = [run_line(run.checkpoint_id, run.created_at, run.title)]
    for file in run.files[:ROWS]:
        descriptions = (changed_lines(file.patch), escape_line(file.about, 400), escape_line(file.state, 400))
        facts = " · ".join(fact for fact in descriptions if fact)
        lines.append(f"  {escape_line(file.file_path).ljust(width)}  {facts}".rstrip())
    if len(run.files) > ROWS:
        lines.append(f"  … {pluralize(len(run.files) - ROWS, 'more file')}")
    if not run.files:
        lines.append("  none of its changes remain")
    return "\n".join(lines) + "\n"


def _is_all_waiting(file: RunFile) -> bool:
    return bool(file.hunks) and all(hunk.state in {"pending", "accepted"} for hunk in file.hunks)


def describe_plan(plan: RollbackPlan, format_command: CommandFormatter) -> str:
    """The changes of a rollback, and the files that it skips. ``format_command`` writes commands for the user."""
    lines: list[str] = []
    if plan.files:
        patches = "".join(file.patch for file in plan.files)
        lines.append(shortened(patches, full_review_command(format_command, plan.checkpoint)).rstrip("\n"))
        if plan.mode == "hard_all":
            lines.append(
                "Later changes in these files are undone too, your own edits included; an undo restores them."
            )
        lines.append(f"{pluralize(len(plan.files), 'file')} would change:")
        lines += [
            f"  {escape_line(file.path)}  {escape_line(file.about, 400)}".rstrip() for file in plan.files
        ]
    if plan.conflicts:
        lines.append("Skipped (changed since):")
        lines += [f"  {escape_line(conflict.reason, 400)}" for conflict in plan.conflicts]
    return "\n".join(lines)


async def roll_back(project: ProjectReview, plan: RollbackPlan, ui: ReviewUI, *, yes: bool = False) -> bool:
    """Show a plan, and carry it out if the user agrees; whether all of it was done. Raises what ``ProjectReview.apply`` does."""
    about = describe_plan(plan, ui.format_command)
    if not plan.files:
        ui.say(about or "The files are already as they were.")
        return not plan.conflicts
    is_redo = await anyio.to_thread.run_sync(project.is_redo_plan, plan)
    question = f"{'Redo' if is_redo else 'Undo'} these changes? [y/N] "
    saved = await project.apply(plan) if await ui.confirm(about, question, yes=yes) else []
    ui.say(describe_saved(saved, is_redo) if saved else UNCHANGED)
    return bool(saved) and not plan.conflicts


def describe_saved(saved: Sequence[Saved], is_redo: bool) -> str:
    """The files that were undone or redone on disk, and those whose pending changes were rejected."""
    done = [file.path for file in saved if file.applied]
    pending = [file.path for file in saved if not file.applied]
    verb = "Redone" if is_redo else "Undone"
    return "\n".join(
        f"{outcome} in {pluralize(len(paths), 'file')}: {join_names(paths)}."
        for outcome, paths in ((verb, done), ("Rejected the pending changes", pending))
        if paths
    )
