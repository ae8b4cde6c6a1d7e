"""``newel acp``: an agent for editors."""

from __future__ import annotations

from collections.abc import Sequence

from newel.cli.options import Parser, add_model_options, flags_of

EPILOG = """\
By default the editor asks before each change and each command.

Zed (settings.json) and JetBrains (~/.jetbrains/acp.json):
  {"agent_servers": {"Newel": {"type": "custom",
                               "command": "newel", "args": ["acp"]}}}
Toad: toad acp "newel acp". Others: any agent with the command `newel acp`."""


def command_acp(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel acp",
        description="Serve an editor by the Agent Client Protocol, on standard input and output. The editor starts this command.",
        epilog=EPILOG,
    )
    add_model_options(parser)
    options = parser.parse_args(arguments)
    from newel.app.acp import run_acp

    return run_acp(flags_of(options))
