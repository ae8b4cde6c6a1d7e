"""The runs of agents and their changes as text, and their undo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import anyio.to_thread

from newel.agent.formatting import pluralize
from newel.diff.unified import changed_lines
from newel.review.renames import find_renames
from newel.review.undo_order import UndoOrder, is_undo
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
from newel.workspace.git import staged_files

if TYPE_CHECKING:
    from newel.review.checkpoints import FilePlan, RollbackPlan
    from newel.review.project import ProjectReview, RunFile, RunView
    from newel.review.revert import RevertConflict
    from newel.review.run_summaries import RunCounts
    from newel.review.save_outcome import SaveProgress, SaveResult
    from newel.review.store.ledger import Checkpoint

SHORT = DiffLimit(60, 100_000)
"""How much of a run's diff a conversation shows where there is no pager."""

HARD = "Later changes in these files are undone too, your own edits included; a redo restores them."

ELSEWHERE = "Made in another conversation."

STILL_STAGED = (
    "Still staged in git, which an undo leaves alone: {files}. `git restore --staged FILE` unstages them."
)

ROWS = 20
"""Files listed of a run."""


def run_line(number: int, checkpoint_id: str, created: str, title: str) -> str:
    """A run on one line: its number, 0 for none, its checkpoint, when it began, and its prompt."""
    when = datetime.fromisoformat(created).astimezone().strftime("%Y-%m-%d %H:%M")
    place = f"{number:>2}  " if number else ""
    return f"{place}{checkpoint_id}  {when}  {escape_line(title, 80) or '(no prompt)'}"


def list_checkpoints(checkpoints: Sequence[Checkpoint]) -> str:
    """All checkpoints, the latest first, with their numbers."""
    return "\n".join(checkpoint_rows(checkpoints)) or NO_CHANGES


def checkpoint_rows(checkpoints: Sequence[Checkpoint]) -> list[str]:
    """A row for each checkpoint: its number, id, time, title, files, and whether it is undone."""
    order = UndoOrder(checkpoints)
    rows: list[str] = []
    for number, checkpoint in enumerate(checkpoints, 1):
        facts = pluralize(len(checkpoint.files), "file") + (", undone" if order.is_undone(checkpoint) else "")
        rows.append(f"{run_line(number, checkpoint.id, checkpoint.created, checkpoint.title)}  ({facts})")
    return rows


async def describe_project(
    project: ProjectReview, limit: int, format_command: CommandFormatter, *, short: bool = False
) -> str:
    """The pending hunks of a project and its latest runs, the last one with its diff, which is cut if it is to be ``short``. Raises
    ``LedgerError``.
    """
    from newel.review.decide import load_pending
    from newel.review.project import load_run
    from newel.review.run_summaries import summarize_runs
    from newel.terminal.review.hunk_format import describe_pending

    checkpoints = await anyio.to_thread.run_sync(project.ledger.checkpoints)
    names = {checkpoint.run: checkpoint for checkpoint in checkpoints}
    parts = [describe_pending(await load_pending(project), names, format_command, SHOWN if short else WHOLE)]
    checkpoints = checkpoints[:limit]
    refreshed = await project.refresh(*checkpoints)
    for checkpoint in checkpoints[:1]:
        run = await load_run(project, checkpoint, refreshed, reverse=False)
        parts.append(describe_run(run, format_command, SHORT if short else WHOLE, 1))
    earlier = await summarize_runs(project, checkpoints[1:], refreshed)
    parts += [_head(run, number) for number, run in enumerate(earlier, 2)]
    if earlier:
        parts.append(f"`{format_command('review 2')}` shows another run.")
    parts += [escape_line(notice, 400) for notice in project.left_out]
    return "\n".join(part for part in parts if part).rstrip("\n") or NO_CHANGES


async def describe_checkpoint(
    project: ProjectReview,
    checkpoint: str,
    format_command: CommandFormatter,
    *,
    short: bool = False,
) -> str:
    """A run with its diff, by its checkpoint's ID or the beginning of it. Raises ``UnknownCheckpoint``."""
    from newel.review.project import load_run

    run = await load_run(project, await project.find(checkpoint), reverse=False)
    return describe_run(run, format_command, SHORT if short else WHOLE).rstrip("\n")


def describe_run(run: RunView, format_command: CommandFormatter, limit: DiffLimit, number: int = 0) -> str:
    """A run with its files and its diff, cut to ``limit``. ``number`` is its place in the list, 0 if it is unknown."""
    from newel.review.run_summaries import summary_of

    # Files that are wholly pending are shown hunk by hunk, above.
    patches = [file.patch for file in run.files if not _is_all_waiting(file)]
    return f"{_head(summary_of(run), number)}\n{shortened(''.join(patches), full_review_command(format_command, run.checkpoint_id), limit)}"


def _head(run: RunCounts, number: int) -> str:
    """A run and its files, each with the size of its change."""
    lines = [run_line(number, run.checkpoint_id, run.created_at, run.title)]
    lines += file_rows((file.name, (file.size, file.about, file.state)) for file in run.files)
    if not run.files:
        lines.append("  none of its changes remain")
    return "\n".join(lines) + "\n"


def _with_renames(patches: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The path, the name to show, and the size of the change of each file; a renamed one comes once, as ``old → new``."""
    old_names = find_renames(patches)
    for path, patch in patches.items():
        old = old_names.get(path)
        if path not in old_names.values():
            yield path, f"{old} → {path}" if old else path, "renamed" if old else _size(patch)


def _size(patch: str) -> str:
    """``+3 -1``; of a file without lines, such as a binary one, whether it comes or goes."""
    if lines := changed_lines(patch):
        return lines
    head = patch.partition("\n@@")[0]
    return "new" if "\nnew file mode" in head else "deleted" if "\ndeleted file mode" in head else ""


def file_rows(files: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    """A row for each file, its facts aligned; of many files the first ``ROWS``."""
    named = [(escape_line(path), facts) for path, facts in files]
    width = max((len(path) for path, _ in named[:ROWS]), default=0)
    rows = [
        f"  {path.ljust(width)}  {' · '.join(escape_line(fact, 400) for fact in facts if fact)}".rstrip()
        for path, facts in named[:ROWS]
    ]
    return [*rows, *([f"  … {pluralize(len(named) - ROWS, 'more file')}"] if len(named) > ROWS else [])]


def _is_all_waiting(file: RunFile) -> bool:
    return bool(file.hunks) and all(hunk.state in {"pending", "accepted"} for hunk in file.hunks)


def files_diff(files: Sequence[FilePlan], format_command: CommandFormatter, checkpoint: str = "") -> str:
    """The diff of planned changes. ``format_command`` writes the command that shows all of ``checkpoint`` for the user."""
    patches = "".join(file.patch for file in files)
    return shortened(patches, full_review_command(format_command, checkpoint)).rstrip("\n")


def describe_files(files: Sequence[FilePlan], conflicts: Sequence[RevertConflict]) -> str:
    """Planned files with the sizes of their changes, and those that are skipped."""
    lines: list[str] = []
    if files:
        lines.append(f"{pluralize(len(files), 'file')} would change:")
        about = {file.path: file.about for file in files}
        rows = _with_renames({file.path: file.patch for file in files})
        lines += file_rows((name, (size, about[path])) for path, name, size in rows)
    if conflicts:
        lines.append("Skipped (changed since):")
        lines += [f"  {escape_line(conflict.reason, 400)}" for conflict in conflicts]
    return "\n".join(lines)


async def plan_undo(
    project: ProjectReview, checkpoint: Checkpoint | None, ui: ReviewUI, *, yes: bool = False
) -> RollbackPlan:
    """Plan an undo for ``roll_back``. If nothing is recorded of the last run, the user is told so, and asked about the run before it; with
    ``yes``, nobody reads that. Raises what ``ProjectReview.undo`` does.
    """
    from newel.review.project import LastRunWithoutRecord

    try:
        return await project.undo(checkpoint)
    except LastRunWithoutRecord as error:
        if yes or error.earlier is None:
            raise
        ui.say(error.reason)
        return await project.undo(error.earlier)


async def roll_back(project: ProjectReview, plan: RollbackPlan, ui: ReviewUI, *, yes: bool = False) -> bool:
    """Show a plan, and carry it out if the user agrees; whether all of it was done. Raises what ``ProjectReview.apply`` does."""
    about = describe_files(plan.files, plan.conflicts)
    if not about:
        ui.say("The files are already as they were.")
        return True
    of = await anyio.to_thread.run_sync(project.checkpoints.get, plan.checkpoint)
    is_redo = is_undo(of)
    verb = "Redo" if is_redo else "Undo"
    head = f"{verb}: {escape_line(of.about or of.title, 80) or '(no prompt)'}"
    if ui.session and of.session not in {"", ui.session}:
        head += f"\n{ELSEWHERE}"
    if not plan.files:
        ui.say(f"{head}\n{about}\nNothing was {verb.lower()}ne.{await project.hint_for_earlier(of)}")
        return False
    if plan.mode == "hard_all":
        head += f"\n{HARD}"
    diff = files_diff(plan.files, ui.format_command, plan.checkpoint)
    about = f"{head}\n{about}"
    if not await ui.confirm(about, f"{verb} these changes?", diff, yes=yes):
        ui.say(UNCHANGED)
        return False
    return await _apply(project, plan, ui, is_redo=is_redo)


async def _apply(project: ProjectReview, plan: RollbackPlan, ui: ReviewUI, *, is_redo: bool) -> bool:
    """Carry out a plan, and say what was done; whether it was all. Raises ``KeyboardInterrupt`` if Ctrl+C has stopped a command of a
    shell.
    """
    from newel.review.save_outcome import SaveProgress, SaveStopped
    from newel.terminal.review.undo_progress import stoppable

    progress, is_stopped = SaveProgress(len(plan.files)), False
    saved: Sequence[SaveResult] = ()
    async with stoppable(progress, "Redo" if is_redo else "Undo", ui):
        try:
            saved = await project.apply(plan, progress)
        except SaveStopped:
            is_stopped = True
            command = (
                f"rollback {plan.checkpoint}" if plan.mode == "hard_all" else "redo" if is_redo else "undo"
            )
            ui.say(describe_stopped(progress, is_redo, ui.format_command(command)))
        else:
            paths = [file.path for file in saved if file.applied]
            staged = await anyio.to_thread.run_sync(staged_files, project.workspace.root, paths)
            ui.say(
                describe_saved(saved, is_redo, ui.format_command) if saved else UNCHANGED,
                STILL_STAGED.format(files=join_names(staged)) if staged else "",
            )
    if is_stopped and ui.takes_signals:
        raise KeyboardInterrupt
    return bool(saved) and not plan.conflicts


def describe_stopped(progress: SaveProgress, is_redo: bool, command: str) -> str:
    """What is done of an undo that was stopped. ``command`` completes it."""
    done = "redone" if is_redo else "undone"
    files = pluralize(progress.total, "file")
    return f"Stopped: {progress.done:,} of {files} {'are' if progress.total != 1 else 'is'} {done}, the others are as they were. `{command}` completes it."


def describe_saved(saved: Sequence[SaveResult], is_redo: bool, format_command: CommandFormatter) -> str:
    """The files that were undone or redone on disk, those whose proposals were rejected or made again, and how to go back and further."""
    done = [file.path for file in saved if file.applied]
    pending = [file.path for file in saved if not file.applied]
    outcomes = ("Redone", "Pending again") if is_redo else ("Undone", "Rejected the pending changes")
    undo, redo = format_command("undo"), format_command("redo")
    hint = (
        f"`{undo}` undoes it again." if is_redo else f"`{redo}` redoes it, `{undo}` undoes the run before it."
    )
    lines = [
        f"{outcome} in {pluralize(len(paths), 'file')}: {join_names(paths)}."
        for outcome, paths in zip(outcomes, (done, pending), strict=True)
        if paths
    ]
    return "\n".join([*lines, hint])
