"""The project that a command is about: a folder of this machine, or one of a host."""

from __future__ import annotations

import argparse
import os
from contextlib import AbstractAsyncContextManager

import anyio

from newel import config
from newel.app.ground import Ground, open_ground
from newel.commands.arguments import folder
from newel.config_hosts import named


def ground_of(
    parser: argparse.ArgumentParser, given: argparse.Namespace
) -> AbstractAsyncContextManager[Ground]:
    """What ``add_place`` was given, to be opened. Opening raises ``WorkspaceError``."""
    cwd, home = folder(parser, given.cwd), config.newel_home(os.environ)
    return open_ground(cwd, named(home, given.host) if given.host is not None else None)


def project_of(parser: argparse.ArgumentParser, given: argparse.Namespace) -> str:
    """The name of what ``add_place`` was given; a host is asked for it."""
    if given.host is None:
        return str(folder(parser, given.cwd))

    async def name() -> str:
        async with ground_of(parser, given) as ground:
            return ground.name

    return anyio.run(name)
