"""``newel review`` and ``checkpoints``: what agents changed, what waits to be decided, and what can be gone back to."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import msgspec

from newel.cli.options import folder, positive_int
from newel.cli.review_session import DONE, Prompter, ledger_parser, with_ledger
from newel.config.settings import Flags, load_settings
from newel.terminal.commands import shell_command_for
from newel.terminal.review import commands as words

if TYPE_CHECKING:
    from newel.review.project import ProjectReview


def command_review(arguments: Sequence[str]) -> int:
    parser = ledger_parser(
        "review", "What waits to be decided, and what agents changed in this folder, by run and file."
    )
    parser.add_argument(
        "checkpoint", nargs="?", metavar="CHECKPOINT", help="this run alone: its id, or the beginning of it"
    )
    parser.add_argument("-n", type=positive_int, default=10, metavar="N", help="at most so many runs (10)")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    given = parser.parse_args(arguments)

    told: list[str] = []

    format_command = shell_command_for(given.host)

    async def show(project: ProjectReview | None) -> int:
        if given.json:
            _print_json(await _review(project, given.checkpoint, given.n))
        elif project is None:
            print(words.NOTHING)
        elif given.checkpoint:
            told.append(await words.describe_checkpoint(project, given.checkpoint, format_command))
        else:
            told.append(await words.describe_project(project, given.n, format_command))
        return DONE

    if not load_settings(Flags(), cwd=folder(parser, given.cwd), environ=os.environ).record:
        print(f"newel: {words.OFF}", file=sys.stderr)
    code = with_ledger(parser, given, show)
    for text in told:  # to be read as long as one likes, and so with the ledger closed
        Prompter().reads(text)
    return code


async def _review(project: ProjectReview | None, checkpoint: str | None, limit: int) -> dict[str, Any]:
    if project is None:
        return {"pending": [], "checkpoints": []}
    from newel.review.decide import look, pending_files
    from newel.review.project import look_at, look_back

    found = await look(project)
    if checkpoint:
        runs = [await look_at(project, await project.find(checkpoint))]
    else:
        runs = await look_back(project, limit=limit)
    return {"pending": pending_files(found.reviews), "checkpoints": runs}


def command_checkpoints(arguments: Sequence[str]) -> int:
    parser = ledger_parser("checkpoints", "The runs that can be taken back, the latest first.")
    parser.add_argument("--json", action="store_true", help="as one JSON object, with files and hunks")
    given = parser.parse_args(arguments)

    async def show(project: ProjectReview | None) -> int:
        found = await anyio.to_thread.run_sync(project.ledger.checkpoints) if project else []
        if not given.json:
            print(words.list_checkpoints(found))
            return DONE
        from newel.review.project import view_of

        views = [view_of(project.ledger, each) for each in found if project is not None]
        _print_json({"checkpoints": views})
        return DONE

    return with_ledger(parser, given, show)


def _print_json(views: dict[str, Any]) -> None:
    print(msgspec.json.encode(views).decode())
