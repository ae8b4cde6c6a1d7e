"""``newel decide``, ``keep`` and ``reject``: decisions on the changes that agents propose."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from newel.cli.review_session import (
    DONE,
    FAILED,
    Prompter,
    check_terminal,
    ledger_parser,
    nothing_recorded,
    with_ledger,
)
from newel.terminal.review.review_ui import NO_PENDING

if TYPE_CHECKING:
    from newel.review.decide import Verdict
    from newel.review.project import ProjectReview

CODES = "exit codes: 0 done, 1 nothing to decide or not all done, 2 wrong usage, 130 interrupted"


def command_decide(arguments: Sequence[str]) -> int:
    parser = ledger_parser(
        "decide",
        "Keep or reject pending changes, hunk by hunk. Kept hunks are written at the end.",
        epilog=CODES,
    )
    options = parser.parse_args(arguments)

    async def decide(project: ProjectReview | None) -> int:
        from newel.terminal.review.interactive import InteractiveReview

        prompter = Prompter()
        ui = prompter.ui(options)
        if project is None:
            ui.say(nothing_recorded(parser, options, NO_PENDING))
            return FAILED
        if not any(map(project.ledger.has_shown_hunks, project.ledger.revisions())):
            ui.say(NO_PENDING)
            return FAILED
        check_terminal("`newel keep` and `newel reject` decide without asking, with --yes.")
        return DONE if await InteractiveReview(project, ui, prompter.keymap).run() else FAILED

    return with_ledger(parser, options, decide)


def command_keep(arguments: Sequence[str]) -> int:
    parser = _parser("keep", "Keep pending changes: write them to the files.")
    return _decide(parser, "keep", parser.parse_args(arguments))


def command_reject(arguments: Sequence[str]) -> int:
    parser = _parser("reject", "Reject pending changes: the files stay as they are.")
    parser.add_argument(
        "--mine",
        choices=["peel", "base"],
        help="drop only your own lines in these hunks (peel), or the whole hunks (base)",
    )
    return _decide(parser, "reject", parser.parse_args(arguments))


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = ledger_parser(name, description, epilog=CODES)
    add = parser.add_argument
    add(
        "names", nargs="*", metavar="HUNK|FILE", help="a file, or a hunk's ID or its beginning (newel review)"
    )
    add("--all", action="store_true", dest="every", help="all pending changes")
    add("--yes", action="store_true", help="do not ask for confirmation")
    parser.set_defaults(mine=None)
    return parser


def _decide(parser: argparse.ArgumentParser, verdict: Verdict, options: argparse.Namespace) -> int:
    if not options.names and not options.every:
        parser.error("name hunks or files, or use --all")

    async def run(project: ProjectReview | None) -> int:
        from newel.terminal.review.interactive import DecideArguments, decide_named

        ui = Prompter().ui(options)
        if project is None:
            ui.say(nothing_recorded(parser, options, NO_PENDING))
            return FAILED
        arguments = DecideArguments(options.names, options.every, options.mine, options.yes)
        return DONE if await decide_named(project, verdict, arguments, ui) else FAILED

    return with_ledger(parser, options, run)
