"""``newel setup``: chooses a model server, its key and a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from newel.agent.errors import UsageError
from newel.cli.options import Parser
from newel.config.settings import newel_home

DESCRIPTION = """\
Choose a model server, its key and a model, try them with one request of a few tokens, and save them: the key as \
`newel keys` does, the rest in config.toml."""


def command_setup(arguments: Sequence[str]) -> int:
    Parser(prog="newel setup", description=DESCRIPTION).parse_args(arguments)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "`newel setup` asks questions, so it needs a terminal. For scripts: newel config set base_url URL; "
            "newel config set model NAME; newel keys set URL < FILE"
        )
    from newel.app.setup import run_setup
    from newel.app.setup_questions import say

    run_setup(newel_home(os.environ))
    say("To begin, in the folder of a project: newel")
    return 0
