"""The project that a command is about: a folder of this machine, or one of a host."""

from __future__ import annotations

import argparse
import os
from contextlib import AbstractAsyncContextManager

import anyio

from newel.app.hosts import open_host
from newel.cli.options import folder
from newel.config.settings import load_host_places, newel_home
from newel.workspace.execution_host import ExecutionHost


def host_of(
    parser: argparse.ArgumentParser, given: argparse.Namespace
) -> AbstractAsyncContextManager[ExecutionHost]:
    """What ``add_place`` was given, to be opened. Opening raises ``WorkspaceError``."""
    cwd, home = folder(parser, given.cwd), newel_home(os.environ)
    host = given.host
    return open_host(cwd, None if host is None else load_host_places(home).get(host, host))


def project_of(parser: argparse.ArgumentParser, given: argparse.Namespace) -> str:
    """The name of what ``add_place`` was given; a host is asked for it."""
    if given.host is None:
        return str(folder(parser, given.cwd))

    async def name() -> str:
        async with host_of(parser, given) as host:
            return host.name

    return anyio.run(name)
