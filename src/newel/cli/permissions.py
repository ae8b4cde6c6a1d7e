"""``newel permissions``: the rules about what agents may do in a project."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

from newel.cli.options import Parser, add_place, list_by_default, open_place, project_of
from newel.config.settings import Flags, load_settings, newel_home
from newel.permissions.allowlist import RuleAllowlist, ServerAllowlist
from newel.permissions.rule_book import RuleBook
from newel.permissions.rules import RuleSet
from newel.text.json import to_printable_json
from newel.text.sanitize import sanitize

EPILOG = """\
A RULE is TOOL or TOOL(PATTERN): "bash(npm run *)", "write(src/**)", "github__*".
What you add here is allowed in this project only. To ask about something, or to \
deny it, write [permissions] into ~/.newel/config.toml, or .newel/permissions.toml \
of the project."""


def command_permissions(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel permissions",
        description="List the rules about what agents may do here, allow more, or revoke what you have allowed.",
        epilog=EPILOG,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listed = actions.add_parser("list", help="list the rules (default)")
    listed.add_argument("--json", action="store_true", help="as JSON")
    add = actions.add_parser("add", help="allow something in this project")
    add.add_argument(
        "rules", nargs="+", metavar="RULE", help='a tool or TOOL(PATTERN), such as "bash(npm run *)"'
    )
    revoke = actions.add_parser("revoke", help="revoke what an answer, or add, has allowed")
    revoke.add_argument(
        "rules", nargs="*", metavar="RULE|SERVER|ID", help="as `newel permissions list` shows them"
    )
    revoke.add_argument("--all", action="store_true", help="revoke all that this project has")
    for action in (listed, add, revoke):
        add_place(action, "for")
    options = parser.parse_args(list_by_default(arguments))
    if options.action == "revoke" and bool(options.rules) == options.all:
        parser.error("name the rules to revoke, or give --all")
    return {"add": _add, "revoke": _revoke}.get(options.action, _list)(parser, options)


def _allowlist(parser: Parser, options: argparse.Namespace) -> RuleAllowlist:
    return RuleAllowlist(newel_home(os.environ), project_of(parser, options))


def _add(parser: Parser, options: argparse.Namespace) -> int:
    from newel.permissions.listing import describe_added

    _allowlist(parser, options).add(options.rules)
    print(describe_added(options.rules))
    return 0


def _revoke(parser: Parser, options: argparse.Namespace) -> int:
    from newel.permissions.listing import describe_revoked

    home, project = newel_home(os.environ), project_of(parser, options)
    # What is revoked is in Newel's own files: a project whose rules are invalid is no obstacle.
    book = RuleBook(
        RuleSet(), RuleSet(), RuleAllowlist(home, project), servers=ServerAllowlist(home, project)
    )
    gone = book.revoke(None if options.all else options.rules)
    print(describe_revoked(gone))
    return 0 if gone or options.all else 1


def _list(parser: Parser, options: argparse.Namespace) -> int:
    from newel.permissions.listing import NO_RULES, rule_columns

    book = anyio.run(_load_book, parser, options)
    rows = book.rows()
    for problem in book.problems():
        print(f"newel: {sanitize(problem)}", file=sys.stderr)
    if options.json:
        import msgspec

        print(to_printable_json([msgspec.structs.asdict(row) for row in rows]))
        return 0
    for rule, origin in rule_columns(rows):
        print(f"{rule}  {origin}")
    if not rows:
        print(NO_RULES)
    return 0


async def _load_book(parser: Parser, options: argparse.Namespace) -> RuleBook:
    from newel.permissions.project_rules import load_project_rules
    from newel.workspace.process.output import OutputLimits

    async with open_place(parser, options) as place:
        project = place.workspace(place.name, OutputLimits())
        settings = load_settings(Flags(), cwd=Path(options.cwd or "."), environ=os.environ)
        home = newel_home(os.environ)
        return RuleBook(
            settings.rules,
            await load_project_rules(project),
            RuleAllowlist(home, project.name),
            domains=settings.sandbox.domains,
            servers=ServerAllowlist(home, project.name),
        )
