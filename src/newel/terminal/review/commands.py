"""The review commands of a conversation: ``/review``, ``/decide``, ``/keep``, ``/reject``, ``/undo`` and ``/rollback``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.to_thread

from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.terminal.commands import CommandContext, slash_command
from newel.terminal.review.review_ui import NO_CHANGES, NOT_RECORDING, ReviewUI
from newel.terminal.review.run_format import describe_checkpoint, describe_project, roll_back, run_line

if TYPE_CHECKING:
    from newel.review.decide import Verdict
    from newel.review.project import ProjectReview
    from newel.terminal.ui.terminal_ui import CommandUI

LISTED = 10
"""Runs that a conversation shows."""


def conversation_ui(ui: CommandUI) -> ReviewUI:
    return ReviewUI(ui.renderer.note, ui.ask, slash_command, ui.columns())


async def show_review(context: CommandContext, checkpoint: str) -> None:
    """``/review [CHECKPOINT]``"""
    if project := await _project(context):
        if checkpoint:
            text = await describe_checkpoint(project, checkpoint, slash_command, in_conversation=True)
        else:
            text = await describe_project(project, LISTED, slash_command, in_conversation=True)
        context.say(text, "diff")


async def decide(context: CommandContext, _: str) -> None:
    """``/decide``"""
    if project := await _project(context):
        from newel.terminal.review.interactive import InteractiveReview

        await InteractiveReview(project, conversation_ui(context.ui)).run()


async def decide_by_name(verdict: Verdict, context: CommandContext, text: str) -> None:
    """``/keep HUNK…|FILE…|--all [--yes]``, ``/reject HUNK…|FILE…|--all [--yes] [--mine peel|base]``"""
    if project := await _project(context):
        from newel.terminal.review.interactive import decide_named, parse_arguments

        await decide_named(project, verdict, parse_arguments(verdict, text), conversation_ui(context.ui))


async def undo(context: CommandContext, text: str) -> None:
    """``/undo [CHECKPOINT]``"""
    if project := await _project(context):
        checkpoint = await project.find(text.strip()) if text.strip() else None
        await roll_back(project, await project.undo(checkpoint), conversation_ui(context.ui))


async def rollback(context: CommandContext, text: str) -> None:
    """``/rollback [CHECKPOINT [HUNK …]]``"""
    project = await _project(context)
    if project is None:
        return
    name, *hunks = text.split() or [""]
    if not name:
        checkpoints = (await anyio.to_thread.run_sync(project.ledger.checkpoints))[:LISTED]
        if not checkpoints:
            context.say(NO_CHANGES)
            return
        rows = [run_line(listed.id, listed.created, listed.title) for listed in checkpoints]
        picked = await context.pick("Roll back to before which run", rows)
        if picked is None:
            return
        name = checkpoints[picked].id
    checkpoint = await project.find(name)
    await roll_back(project, await project.rollback(checkpoint, hunks), conversation_ui(context.ui))


async def _project(context: CommandContext) -> ProjectReview | None:
    workspace = context.agent.workspace
    if not isinstance(workspace, RecordingWorkspace):
        context.say(NOT_RECORDING)
        return None
    return (await workspace.recorder()).project
