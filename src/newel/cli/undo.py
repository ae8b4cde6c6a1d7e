"""``newel undo`` and ``rollback``: what agents did to files, taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio.to_thread

from newel.cli.review_session import DONE, FAILED, Prompter, ledger_parser, with_ledger
from newel.terminal.commands import CommandFormatter, shell_command_for
from newel.terminal.review import commands as words
from newel.text.sanitize import reveal_line

if TYPE_CHECKING:
    from newel.review.checkpoints import RollbackPlan
    from newel.review.project import ProjectReview

CODES = "exit codes: 0 done, 1 nothing was taken back or not all of it, 2 wrong usage, 130 interrupted"


def command_undo(arguments: Sequence[str]) -> int:
    parser = ledger_parser(
        "undo",
        "Take back what the last run changed, or the run of a checkpoint. What was changed since stays; an undo can be undone.",
        epilog=CODES,
    )
    parser.add_argument(
        "checkpoint",
        nargs="?",
        metavar="CHECKPOINT",
        help="this run: the id of its checkpoint, or the beginning of it (newel checkpoints); without it, the last run",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    given = parser.parse_args(arguments)

    async def undo(project: ProjectReview | None) -> int:
        if project is None:
            from newel.review.model.history import NothingToUndo

            raise NothingToUndo(words.NOTHING)
        if _is_finished(project):
            return DONE
        named = await project.find(given.checkpoint) if given.checkpoint else None
        return await _take_back(
            project, await project.undo(named), yes=given.yes, format_command=shell_command_for(given.host)
        )

    return with_ledger(parser, given, undo)


def command_rollback(arguments: Sequence[str]) -> int:
    parser = ledger_parser(
        "rollback",
        "Make the files of a run what they were before it, whatever was changed since; with --hunk only take back hunks of it.",
        epilog=CODES,
    )
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="its id, or the beginning of it (newel checkpoints)")
    add(
        "--hunk",
        dest="hunks",
        action="append",
        default=[],
        metavar="ID",
        help="only this hunk of it; newer changes stay (newel review --json; may be given several times)",
    )
    add("--yes", action="store_true", help="do not ask")
    given = parser.parse_args(arguments)

    async def rollback(project: ProjectReview | None) -> int:
        if project is None:
            from newel.review.checkpoints import UnknownCheckpoint

            raise UnknownCheckpoint(f"There is no checkpoint {given.checkpoint}. {words.NOTHING}")
        if _is_finished(project):
            return DONE
        plan = await project.rollback(await project.find(given.checkpoint), given.hunks)
        return await _take_back(project, plan, yes=given.yes, format_command=shell_command_for(given.host))

    return with_ledger(parser, given, rollback)


def _is_finished(project: ProjectReview) -> bool:
    """Whether what is asked for was asked for before, of a process that was killed over it, and has just been done. To do it
    again would take that back.
    """
    for each in project.finished:
        print(f"{reveal_line(each.title)}: it was interrupted, and has been brought to its end now.")
    return bool(project.finished)


async def _take_back(
    project: ProjectReview, plan: RollbackPlan, *, yes: bool, format_command: CommandFormatter
) -> int:
    person = Prompter()

    is_redo = await anyio.to_thread.run_sync(project.brings_back, plan)

    async def confirm(about: str) -> bool:
        return await person.agrees(about, words.take_back_question(is_redo), yes=yes)

    if not plan.files:
        print(words.describe_plan(plan, format_command) or "The files are as they were already.")
        return FAILED if plan.conflicts else DONE
    saved = await words.take_back(project, plan, confirm, format_command)
    print(words.describe_saved(saved, is_redo) if saved else "Nothing was changed.")
    return DONE if saved and not plan.conflicts else FAILED
