"""``newel acp``: an agent for editors."""

from __future__ import annotations

from collections.abc import Sequence

from newel.cli.options import Parser, add_model_options, flags_of


def command_acp(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel acp",
        description="Serve an editor by the Agent Client Protocol, on standard input and output. The editor starts this command; "
        "docs/editors.md shows how.",
        epilog="By default the editor asks before each change and each command.",
    )
    add_model_options(parser)
    options = parser.parse_args(arguments)
    from newel.app.acp import run_acp

    return run_acp(flags_of(options))
