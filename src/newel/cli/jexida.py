"""``jexida``: an agent for one host over SSH, with a model that runs there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from newel.app.jexida import Options, run
from newel.cli.options import Parser, positive_int
from newel.config.jexida import Through
from newel.config.settings import Flags

EPILOG = """\
Settings are read from ~/.jexida/config.toml, and from [remote] in Newel's config.toml.
In the conversation, /help lists the commands."""


def command_jexida(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="jexida",
        description="Look after a host: a model there proposes shell commands, and you approve them.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    add("--host", help="the host, or its alias in ~/.ssh/config")
    add("--user", help="log in as this user")
    add("--directory", metavar="PATH", help="run commands in this folder, and record their changes")
    add("--port", type=positive_int, metavar="N", help="connect to this port")
    add("-m", "--model", metavar="NAME", help="use this model")
    add("--through", choices=get_args(Through), help="how to reach the model (default: auto)")
    add("--config", type=Path, metavar="FILE", help="read FILE instead of ~/.jexida/config.toml")
    add("--ssh-config", metavar="FILE", help="have ssh read FILE instead of ~/.ssh/config")
    add("--base-url", metavar="URL", help="with --through api, use this OpenAI-compatible server")
    session = parser.add_mutually_exclusive_group()
    session.add_argument(
        "-c",
        "--continue",
        dest="continue_",
        action="store_true",
        help="resume this host's latest session",
    )
    session.add_argument("--session", metavar="ID", help="resume this session")
    session.add_argument("--ephemeral", action="store_true", help="do not save the session")
    options = vars(parser.parse_args(arguments))
    return run(Options(flags=Flags(base_url=options.pop("base_url")), **options))
