"""``jexida``: an agent for one host over SSH, with a model that runs there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from newel.app.jexida import Options, run
from newel.cli.options import positive_int
from newel.cli.parser import Parser
from newel.config.jexida import Through
from newel.config.settings import Flags

EPILOG = """\
Settings stand in ~/.jexida/config.toml, or under [remote] in Newel's own file.
In the conversation /help lists the commands."""


def command_jexida(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="jexida",
        description="Look after a host: a model there proposes shell commands, and you let them run.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--host", help="the host, or its name in ~/.ssh/config")
    add("--user", help="who to be there")
    add("--directory", metavar="PATH", help="where commands run, and their changes are recorded")
    add("--port", type=positive_int, metavar="N", help="the port of its ssh server")
    add("-m", "--model", help="the model's name")
    add("--through", choices=get_args(Through), help="how the model is reached (auto)")
    add("--config", type=Path, metavar="FILE", help="settings in place of ~/.jexida/config.toml")
    add("--ssh-config", metavar="FILE", help="what ssh reads in place of ~/.ssh/config")
    add("--base-url", metavar="URL", help="with --through api: an OpenAI-compatible server")
    said = parser.add_mutually_exclusive_group()
    said.add_argument(
        "-c",
        "--continue",
        dest="continue_",
        action="store_true",
        help="go on with this host's last conversation",
    )
    said.add_argument("--session", metavar="ID", help="go on with this conversation")
    said.add_argument("--ephemeral", action="store_true", help="keep the conversation in memory only")
    given = parser.parse_args(arguments)
    return run(
        Options(
            flags=Flags(base_url=given.base_url),
            host=given.host,
            user=given.user,
            directory=given.directory,
            port=given.port,
            model=given.model,
            through=given.through,
            config=given.config,
            ssh_config=given.ssh_config,
            continue_=given.continue_,
            session=given.session,
            ephemeral=given.ephemeral,
        )
    )
