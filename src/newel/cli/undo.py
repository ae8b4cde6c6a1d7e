"""``newel undo``, ``newel redo`` and ``newel rollback``: undo the changes of agents."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from newel.cli.review_session import DONE, FAILED, Prompter, ledger_parser, nothing_recorded, with_ledger
from newel.terminal.review.review_ui import ReviewUI
from newel.terminal.review.run_format import plan_undo, roll_back
from newel.text.sanitize import escape_line

if TYPE_CHECKING:
    from newel.review.checkpoints import RollbackPlan
    from newel.review.project import ProjectReview

CODES = "exit codes: 0 done, 1 nothing or not all undone, 2 wrong usage, 130 interrupted"

NAMES = "its number, its checkpoint's ID, or the beginning of that (newel checkpoints)"


def command_undo(arguments: Sequence[str]) -> int:
    parser = ledger_parser(
        "undo",
        "Undo the changes of the last run that is not undone yet, or of another. Later changes stay. newel redo redoes it.",
        epilog=CODES,
    )
    parser.add_argument("checkpoint", nargs="?", metavar="CHECKPOINT", help=f"undo this run: {NAMES}")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    options = parser.parse_args(arguments)

    async def plan(project: ProjectReview, ui: ReviewUI) -> RollbackPlan:
        checkpoint = await project.find(options.checkpoint) if options.checkpoint else None
        return await plan_undo(project, checkpoint, ui, yes=options.yes)

    return _roll_back(parser, options, plan, _nothing)


def command_redo(arguments: Sequence[str]) -> int:
    parser = ledger_parser(
        "redo", "Redo the changes that the last undo has undone, or those of another run.", epilog=CODES
    )
    parser.add_argument("checkpoint", nargs="?", metavar="CHECKPOINT", help=f"redo this run: {NAMES}")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    options = parser.parse_args(arguments)

    async def plan(project: ProjectReview, _: ReviewUI) -> RollbackPlan:
        return await project.redo(await project.find(options.checkpoint) if options.checkpoint else None)

    return _roll_back(parser, options, plan, _nothing)


def _nothing(reason: str) -> Exception:
    from newel.review.model.history import NothingToUndo

    return NothingToUndo(reason)


def command_rollback(arguments: Sequence[str]) -> int:
    parser = ledger_parser(
        "rollback",
        "Restore a run's files to their state before it, and undo all later changes to them. With --hunk, undo only that hunk.",
        epilog=CODES,
    )
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help=NAMES)
    add(
        "--hunk",
        dest="hunks",
        action="append",
        default=[],
        metavar="ID",
        help="undo only this hunk; later changes stay (newel review --json; can be repeated)",
    )
    add("--yes", action="store_true", help="do not ask for confirmation")
    options = parser.parse_args(arguments)

    async def plan(project: ProjectReview, _: ReviewUI) -> RollbackPlan:
        return await project.rollback(await project.find(options.checkpoint), options.hunks)

    def fail(reason: str) -> Exception:
        from newel.review.checkpoints import UnknownCheckpoint

        return UnknownCheckpoint(f"There is no checkpoint {options.checkpoint}. {reason}")

    return _roll_back(parser, options, plan, fail)


def _roll_back(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    plan: Callable[[ProjectReview, ReviewUI], Awaitable[RollbackPlan]],
    fail: Callable[[str], Exception],
) -> int:
    async def run(project: ProjectReview | None) -> int:
        if project is None:
            raise fail(nothing_recorded(parser, options))
        for finished in project.finished:
            print(f"{escape_line(finished.title)}: it was interrupted, and has been completed now.")
        # Probably the same request, by a process that was killed: to repeat it would undo another run.
        if project.finished:
            return DONE
        ui = Prompter().ui(options)
        is_done = await roll_back(project, await plan(project, ui), ui, yes=options.yes)
        return DONE if is_done else FAILED

    return with_ledger(parser, options, run)
