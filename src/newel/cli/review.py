"""``newel review`` and ``newel checkpoints``: pending changes, and the runs of agents."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from newel.agent.formatting import pluralize
from newel.cli.options import folder, positive_int
from newel.cli.review_session import DONE, FAILED, Prompter, ledger_parser, nothing_recorded, with_ledger
from newel.config.settings import Flags, load_settings
from newel.review.decide import PendingReviews, load_pending
from newel.terminal.commands import CommandFormatter, shell_command_for
from newel.terminal.review.run_format import describe_checkpoint, describe_project, list_checkpoints
from newel.terminal.review.run_notice import NOT_RECORDING
from newel.text.json import to_printable_json
from newel.text.sanitize import escape_line

if TYPE_CHECKING:
    from newel.review.model.file_review import FileReview
    from newel.review.project import ProjectReview

NOTHING_WAITS = "No change waits for a decision."


def command_review(arguments: Sequence[str]) -> int:
    parser = ledger_parser(
        "review",
        "Show pending changes, and the latest runs with the last one's diff.",
        epilog="exit codes with --check: 0 none waits, 1 some do, 2 wrong usage",
    )
    parser.add_argument(
        "checkpoint",
        nargs="?",
        metavar="CHECKPOINT",
        help="show this run alone: its number, its checkpoint's ID, or the beginning of that",
    )
    parser.add_argument("-n", type=positive_int, default=10, metavar="N", help="show at most N runs (10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit with 1 if changes wait for a decision, and list their files (for hooks and CI)",
    )
    options = parser.parse_args(arguments)
    if options.check and options.checkpoint:
        parser.error("--check is about all pending changes; it takes no CHECKPOINT")

    texts: list[str] = []
    format_command = shell_command_for(options.host)

    async def show(project: ProjectReview | None) -> int:
        if options.check:
            return await _check(project, format_command, as_json=options.json)
        if options.json:
            _print_json(await _review(project, options.checkpoint, options.n))
        elif project is None:
            print(nothing_recorded(parser, options))
        elif options.checkpoint:
            texts.append(await describe_checkpoint(project, options.checkpoint, format_command))
        else:
            texts.append(await describe_project(project, options.n, format_command))
        return DONE

    if not load_settings(Flags(), cwd=folder(parser, options.cwd), environ=os.environ).record:
        print(f"newel: {NOT_RECORDING}", file=sys.stderr)
    code = with_ledger(parser, options, show)
    for text in texts:  # with the ledger closed: a pager can stay open for hours
        Prompter().show_long(text)
    return code


async def _check(project: ProjectReview | None, format_command: CommandFormatter, *, as_json: bool) -> int:
    """List the files whose changes wait for a decision or are not written yet. A file that cannot be read may have some."""
    if as_json:
        _print_json(await _review(project, None, 0))
    pending = await load_pending(project) if project else PendingReviews([], [])
    lines = [line for review in pending.reviews if (line := _waiting_line(review))]
    lines += [f"{escape_line(problem.path)}: {escape_line(problem.reason)}" for problem in pending.problems]
    if not as_json:
        print("\n".join(sorted(lines)) or NOTHING_WAITS)
    if lines:
        print(f"newel: decide with `{format_command('decide')}`.", file=sys.stderr)
    return FAILED if lines else DONE


def _waiting_line(review: FileReview) -> str:
    """A file with the number of its changes that wait; empty if none does."""
    states = [hunk.state for hunk in review.hunks]
    counts = ((states.count("pending"), "to decide"), (states.count("accepted"), "kept but not written"))
    told = [f"{pluralize(count, 'change')} {what}" for count, what in counts if count]
    return f"{escape_line(review.path)}: {', '.join(told)}" if told else ""


async def _review(project: ProjectReview | None, checkpoint: str | None, limit: int) -> dict[str, Any]:
    if project is None:
        return {"pending": [], "checkpoints": []}
    from newel.review.decide import pending_files
    from newel.review.project import load_run, recent_runs

    pending = await load_pending(project)
    if checkpoint:
        runs = [await load_run(project, await project.find(checkpoint))]
    else:
        runs = await recent_runs(project, limit=limit)
    return {"pending": pending_files(pending.reviews), "checkpoints": runs}


def command_checkpoints(arguments: Sequence[str]) -> int:
    parser = ledger_parser("checkpoints", "List the runs that can be undone, newest first.")
    parser.add_argument("--json", action="store_true", help="print one JSON object, with files and hunks")
    options = parser.parse_args(arguments)

    async def show(project: ProjectReview | None) -> int:
        checkpoints = await anyio.to_thread.run_sync(project.ledger.checkpoints) if project else []
        if not options.json:
            print(list_checkpoints(checkpoints) if project else nothing_recorded(parser, options))
            return DONE
        from newel.review.project import view_of

        views = [view_of(project.ledger, checkpoint) for checkpoint in checkpoints if project is not None]
        _print_json({"checkpoints": views})
        return DONE

    return with_ledger(parser, options, show)


def _print_json(views: dict[str, Any]) -> None:
    print(to_printable_json(views))
