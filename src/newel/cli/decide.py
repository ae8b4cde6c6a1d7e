"""``newel decide``, ``keep`` and ``reject``: what becomes of the changes that agents propose."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from newel.cli.review_session import DONE, FAILED, Prompter, ledger_parser, with_ledger
from newel.terminal.commands import shell_command_for
from newel.terminal.review import commands as words

if TYPE_CHECKING:
    from newel.review.decide import Verdict
    from newel.review.project import ProjectReview

CODES = (
    "exit codes: 0 done, 1 there was nothing to decide or not all was done, 2 wrong usage, 130 interrupted"
)


def command_decide(arguments: Sequence[str]) -> int:
    parser = ledger_parser(
        "decide",
        "Keep or reject what agents propose, hunk by hunk; what was kept is written at the end.",
        epilog=CODES,
    )
    given = parser.parse_args(arguments)
    Prompter.check("newel keep and newel reject, with --yes, decide unasked.")

    async def decide(project: ProjectReview | None) -> int:
        from newel.terminal.renderers.screen import terminal_size
        from newel.terminal.review.interactive import NOTHING_WAITS, InteractiveReview

        person = Prompter()
        if project is None:
            person.renderer.note(NOTHING_WAITS)
            return FAILED
        format_command = shell_command_for(given.host)
        walk = InteractiveReview(
            project, person.renderer.note, person.ask, format_command, columns=terminal_size(person.out)[0]
        )
        await walk.run()
        return DONE if walk.outcome.is_done else FAILED

    return with_ledger(parser, given, decide)


def command_keep(arguments: Sequence[str]) -> int:
    parser = _parser("keep", "Keep what agents propose: it is written to the files.")
    return _settle(parser, "keep", parser.parse_args(arguments))


def command_reject(arguments: Sequence[str]) -> int:
    parser = _parser("reject", "Reject what agents propose: the files stay as they are there.")
    parser.add_argument(
        "--mine",
        choices=["peel", "base"],
        help="what becomes of your own lines in these hunks: only they go (peel), or all of it (base)",
    )
    return _settle(parser, "reject", parser.parse_args(arguments))


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = ledger_parser(name, description, epilog=CODES)
    add = parser.add_argument
    add(
        "names", nargs="*", metavar="HUNK|FILE", help="a hunk's id or its beginning, or a file (newel review)"
    )
    add("--all", action="store_true", dest="every", help="all that waits")
    add("--yes", action="store_true", help="do not ask")
    parser.set_defaults(mine=None)
    return parser


def _settle(parser: argparse.ArgumentParser, verdict: Verdict, given: argparse.Namespace) -> int:
    if not given.names and not given.every:
        parser.error("name hunks or files, or use --all")

    async def run(project: ProjectReview | None) -> int:
        from newel.review.decide import chosen, look
        from newel.terminal.review.interactive import NOTHING_WAITS, settle

        person = Prompter()
        if project is None:
            person.renderer.note(NOTHING_WAITS)
            return FAILED

        async def confirm(about: str) -> bool:
            return await person.agrees(about, words.QUESTIONS[verdict], yes=given.yes)

        choice = chosen(await look(project), given.names, verdict, every=given.every, mine=given.mine)
        outcome = await settle(project, choice, person.renderer.note, confirm, shell_command_for(given.host))
        return DONE if outcome.is_done else FAILED

    return with_ledger(parser, given, run)
