"""What agents changed and how it is taken back, in words for a terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import anyio.to_thread

from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.terminal.commands import CommandFormatter, full_review_command, slash_command
from newel.terminal.diff_view import SHOWN, WHOLE, Extent, changed_lines, shortened
from newel.text.format import plural, some
from newel.text.sanitize import reveal_line

if TYPE_CHECKING:
    from newel.review.checkpoints import RollbackPlan
    from newel.review.decide import Verdict
    from newel.review.project import ProjectReview, RunFile, RunView
    from newel.review.save import Saved
    from newel.review.store.ledger import Checkpoint
    from newel.terminal.commands import CommandContext
    from newel.terminal.ui.terminal_ui import TerminalUI

LISTED = 10
"""Runs that a conversation shows."""

SHOWN_BETWEEN = Extent(60, 6_000)
"""How much of a run's diff a conversation shows, which goes on below it."""

ROWS = 20
"""Files of a run that are listed."""

NOTHING = "No changes by agents are recorded in this folder."
OFF = "Recording is off ([review] record = false in config.toml): what agents change from now on cannot be taken back."

QUESTIONS: dict[Verdict, str] = {"keep": "Keep and write these? [y/N] ", "reject": "Reject these? [y/N] "}

Confirm = Callable[[str], Awaitable[bool]]
"""Shows what would be done, and asks whether to do it."""


def run_line(checkpoint_id: str, created: str, title: str) -> str:
    """A run in a line: what it can be taken back by, when it began, and its prompt."""
    when = datetime.fromisoformat(created).astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{checkpoint_id}  {when}  {reveal_line(title, 80) or '(no words)'}"


def list_checkpoints(checkpoints: Sequence[Checkpoint]) -> str:
    lines = [
        f"{run_line(each.id, each.created, each.title)}  ({plural(len(each.files), 'file')})"
        for each in checkpoints
    ]
    return "\n".join(lines) or NOTHING


async def describe_project(
    project: ProjectReview, limit: int, format_command: CommandFormatter, *, between: bool = False
) -> str:
    """What waits in a project, and its latest runs, the last one with what it did; ``called`` is how the commands are that
    it names. ``between`` two prompts a long diff is cut. Raises ``LedgerError``.
    """
    from newel.review.decide import look, run_names
    from newel.review.project import look_back
    from newel.terminal.review.hunk_format import describe_waiting

    names = await anyio.to_thread.run_sync(run_names, project.ledger)
    parts = [describe_waiting(await look(project), names, format_command, SHOWN if between else WHOLE)]
    runs = await look_back(project, limit=limit)
    shown = SHOWN_BETWEEN if between else WHOLE
    parts += [describe_run(run, format_command, shown) if run is runs[0] else _head(run) for run in runs]
    if len(runs) > 1:
        parts.append(f"`{format_command(f'review {runs[1].checkpoint_id}')}` shows what another run did.")
    parts += [reveal_line(notice, 400) for notice in project.left_out]
    return "\n".join(part for part in parts if part).rstrip("\n") or NOTHING


async def describe_checkpoint(
    project: ProjectReview, checkpoint: str, format_command: CommandFormatter, *, between: bool = False
) -> str:
    """A run, by the id of its checkpoint or the beginning of it, with what it did. Raises ``UnknownCheckpoint``."""
    from newel.review.project import look_at

    run = await look_at(project, await project.find(checkpoint))
    return describe_run(run, format_command, SHOWN_BETWEEN if between else WHOLE).rstrip("\n")


def describe_run(run: RunView, format_command: CommandFormatter, shown: Extent) -> str:
    """A run with its files, and below them what it did, as much as ``shown`` says."""
    # What waits altogether is shown by itself, hunk by hunk.
    patches = [file.patch for file in run.files if not _is_all_waiting(file)]
    return f"{_head(run)}\n{shortened(''.join(patches), full_review_command(format_command, run.checkpoint_id), shown)}"


def _head(run: RunView) -> str:
    """A run and its files, the line of each with how much it is."""
    width = max((len(reveal_line(file.file_path)) for file in run.files[:ROWS]), default=0)
    lines = [run_line(run.checkpoint_id, run.created_at, run.title)]
    for file in run.files[:ROWS]:
        known = (changed_lines(file.patch), reveal_line(file.about, 400), reveal_line(file.state, 400))
        facts = " · ".join(fact for fact in known if fact)
        lines.append(f"  {reveal_line(file.file_path).ljust(width)}  {facts}".rstrip())
    if len(run.files) > ROWS:
        lines.append(f"  … {plural(len(run.files) - ROWS, 'more file')}")
    if not run.files:
        lines.append("  no change of it is left")
    return "\n".join(lines) + "\n"


def _is_all_waiting(file: RunFile) -> bool:
    return bool(file.hunks) and all(hunk.state in {"pending", "accepted"} for hunk in file.hunks)


def describe_plan(plan: RollbackPlan, format_command: CommandFormatter) -> str:
    """What a rollback would change, and what it leaves alone. ``format_command`` writes commands for the user."""
    lines: list[str] = []
    if plan.files:
        patches = "".join(file.patch for file in plan.files)
        lines.append(shortened(patches, full_review_command(format_command, plan.checkpoint)).rstrip("\n"))
        if plan.mode == "hard_all":
            lines.append(
                "Whatever was changed in these files since goes, your own edits too; an undo brings it back."
            )
        lines.append(f"{plural(len(plan.files), 'file')} would change:")
        lines += [
            f"  {reveal_line(file.path)}  {reveal_line(file.about, 400)}".rstrip() for file in plan.files
        ]
    return "\n".join([*lines, *_left_alone(plan)])


def _left_alone(plan: RollbackPlan) -> list[str]:
    if not plan.conflicts:
        return []
    return [
        "Skipped (changed since):",
        *(f"  {reveal_line(each.reason, 400)}" for each in plan.conflicts),
    ]


async def take_back(
    project: ProjectReview, plan: RollbackPlan, confirm: Confirm, format_command: CommandFormatter
) -> list[Saved]:
    """Show a plan, and carry it out if it is confirmed; returns what became of the files. Raises what ``carry_out`` does."""
    if plan.files and await confirm(describe_plan(plan, format_command)):
        return await project.carry_out(plan)
    return []


def take_back_question(is_redo: bool) -> str:
    return "Bring this back? [y/N] " if is_redo else "Take this back? [y/N] "


def describe_saved(saved: Sequence[Saved], is_redo: bool) -> str:
    """What was taken back on the disk, or brought back there, and where only what waited there was rejected."""
    done = [one.path for one in saved if one.applied]
    waited = [one.path for one in saved if not one.applied]
    verb = "Brought back" if is_redo else "Taken back"
    lines = [f"{verb} in {plural(len(done), 'file')}: {some(done)}."] if done else []
    lines += (
        [f"Rejected the pending changes in {plural(len(waited), 'file')}: {some(waited)}."] if waited else []
    )
    return "\n".join(lines)


# -- commands of a conversation -------------------------------------------------------------------------


async def show_review(context: CommandContext, checkpoint: str) -> None:
    """``/review [CHECKPOINT]``"""
    if (project := await _project(context)) is None:
        return
    if checkpoint:
        told = await describe_checkpoint(project, checkpoint, slash_command, between=True)
    else:
        told = await describe_project(project, LISTED, slash_command, between=True)
    context.ui.renderer.note(told, "diff")


async def decide(context: CommandContext, _: str) -> None:
    """``/decide``"""
    project = await _project(context)
    if project is None:
        return
    from newel.terminal.review.interactive import InteractiveReview

    ui = context.ui
    walk = InteractiveReview(project, ui.renderer.note, ui.ask, slash_command, columns=ui.columns())
    await walk.run()


async def keep(context: CommandContext, words: str) -> None:
    """``/keep HUNK…|FILE…|--all [--yes]``"""
    await _settle(context, "keep", words)


async def reject(context: CommandContext, words: str) -> None:
    """``/reject HUNK…|FILE…|--all [--yes] [--mine peel|base]``"""
    await _settle(context, "reject", words)


async def _settle(context: CommandContext, verdict: Verdict, text: str) -> None:
    project = await _project(context)
    if project is None:
        return
    from newel.review.decide import chosen, look
    from newel.terminal.review.interactive import is_yes, settle, understood

    wish = understood(verdict, text)

    async def confirm(about: str) -> bool:
        context.ui.renderer.note(about, "diff")
        return wish.yes or is_yes(await context.ui.ask(QUESTIONS[verdict], ""))

    choice = chosen(await look(project), wish.names, verdict, every=wish.every, mine=wish.mine)
    await settle(project, choice, context.ui.renderer.note, confirm, slash_command)


async def undo(context: CommandContext, words: str) -> None:
    """``/undo [CHECKPOINT]``"""
    if project := await _project(context):
        named = await project.find(words.strip()) if words.strip() else None
        await roll_back_in_ui(context.ui, project, await project.undo(named))


async def rollback(context: CommandContext, words: str) -> None:
    """``/rollback [CHECKPOINT [HUNK …]]``"""
    project = await _project(context)
    if project is None:
        return
    wanted, *hunks = words.split() or [""]
    if not wanted:
        found = (await anyio.to_thread.run_sync(project.ledger.checkpoints))[:LISTED]
        if not found:
            context.say(NOTHING)
            return
        rows = [run_line(each.id, each.created, each.title) for each in found]
        picked = await context.pick("Go back to before which run", rows)
        if picked is None:
            return
        wanted = found[picked].id
    from newel.review.checkpoints import UnknownCheckpoint

    try:
        checkpoint = await project.find(wanted)
    except UnknownCheckpoint as error:
        context.say(str(error).replace("`newel checkpoints`", "/rollback"))
        return
    plan = await project.rollback(checkpoint, hunks)
    await roll_back_in_ui(context.ui, project, plan)


async def _project(context: CommandContext) -> ProjectReview | None:
    workspace = context.agent.workspace
    if not isinstance(workspace, RecordingWorkspace):
        context.say(OFF)
        return None
    return (await workspace.recorder()).project


async def roll_back_in_ui(ui: TerminalUI, project: ProjectReview, plan: RollbackPlan) -> None:
    """Carry out a plan if the person at the ui agrees. Raises what ``take_back`` does."""
    is_redo = await anyio.to_thread.run_sync(project.brings_back, plan)

    async def confirm(about: str) -> bool:
        ui.renderer.note(about, "diff")
        answer = await ui.ask(take_back_question(is_redo), "")
        return (answer or "").strip().lower() in {"y", "yes"}

    if not plan.files:
        ui.renderer.note(describe_plan(plan, slash_command) or "The files are as they were already.")
        return
    saved = await take_back(project, plan, confirm, slash_command)
    ui.renderer.note(describe_saved(saved, is_redo) if saved else "Nothing was changed.")
