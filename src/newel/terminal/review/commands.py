"""The review commands of a conversation: ``/review``, ``/decide``, ``/keep``, ``/reject``, ``/undo``, ``/redo`` and ``/rollback``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.to_thread

from newel.review.tracking.recording_workspace import RecordingWorkspace
from newel.terminal.commands import CommandContext, slash_command
from newel.terminal.review.review_ui import NO_CHANGES, ReviewUI
from newel.terminal.review.run_format import (
    checkpoint_rows,
    describe_checkpoint,
    describe_project,
    plan_undo,
    roll_back,
)
from newel.terminal.review.run_notice import NOT_RECORDING

if TYPE_CHECKING:
    from newel.review.decide import Verdict
    from newel.review.project import ProjectReview
    from newel.session.manager import SessionManager
    from newel.terminal.ui.terminal_ui import CommandUI

LISTED = 10
"""Runs that a conversation shows."""


def conversation_ui(ui: CommandUI, session: SessionManager) -> ReviewUI:
    renderer = ui.renderer
    show_progress = renderer.show_progress if renderer.animated else None
    return ReviewUI(
        renderer.note,
        ui.ask,
        slash_command,
        ui.columns(),
        ui.view,
        ui.edit_file,
        show_progress,
        session=session.get_id(),
    )


async def show_review(context: CommandContext, checkpoint: str) -> None:
    """``/review [CHECKPOINT]``"""
    if project := await project_of(context):

        async def describe(*, short: bool) -> str:
            if checkpoint:
                return await describe_checkpoint(project, checkpoint, slash_command, short=short)
            return await describe_project(project, LISTED, slash_command, short=short)

        if (view := context.ui.view) is None:
            context.say(await describe(short=True), "diff")
        else:
            await view(await describe(short=False), await describe(short=True))


async def decide(context: CommandContext, _: str) -> None:
    """``/decide``"""
    if project := await project_of(context):
        from newel.terminal.review.interactive import InteractiveReview

        await InteractiveReview(
            project, conversation_ui(context.ui, context.agent.session), context.keymap
        ).run()


async def decide_by_name(verdict: Verdict, context: CommandContext, text: str) -> None:
    """``/keep HUNK…|FILE…|--all [--yes]``, ``/reject HUNK…|FILE…|--all [--yes] [--mine peel|base]``"""
    if project := await project_of(context):
        from newel.terminal.review.interactive import decide_named, parse_arguments

        await decide_named(
            project,
            verdict,
            parse_arguments(verdict, text),
            conversation_ui(context.ui, context.agent.session),
        )


async def undo(context: CommandContext, text: str) -> None:
    """``/undo [CHECKPOINT]``"""
    if project := await project_of(context):
        checkpoint = await project.find(text.strip()) if text.strip() else None
        ui = conversation_ui(context.ui, context.agent.session)
        await roll_back(project, await plan_undo(project, checkpoint, ui), ui)


async def redo(context: CommandContext, text: str) -> None:
    """``/redo [CHECKPOINT]``"""
    if project := await project_of(context):
        checkpoint = await project.find(text.strip()) if text.strip() else None
        await roll_back(
            project,
            await project.redo(checkpoint),
            conversation_ui(context.ui, context.agent.session),
        )


async def rollback(context: CommandContext, text: str) -> None:
    """``/rollback [CHECKPOINT [HUNK …]]``"""
    project = await project_of(context)
    if project is None:
        return
    name, *hunks = text.split() or [""]
    if not name:
        checkpoints = await anyio.to_thread.run_sync(project.ledger.checkpoints)
        if not checkpoints:
            context.say(NO_CHANGES)
            return
        picked = await context.pick("Roll back to before which run?", checkpoint_rows(checkpoints))
        if picked is None:
            return
        name = checkpoints[picked].id
    checkpoint = await project.find(name)
    await roll_back(
        project,
        await project.rollback(checkpoint, hunks),
        conversation_ui(context.ui, context.agent.session),
    )


async def project_of(context: CommandContext) -> ProjectReview | None:
    workspace = context.agent.workspace
    if not isinstance(workspace, RecordingWorkspace):
        context.say(NOT_RECORDING)
        return None
    return await workspace.project()
