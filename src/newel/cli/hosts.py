"""``newel hosts``: the hosts that have names, and whether one can be worked on, with the remedy for what is wrong."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from newel.agent.errors import ConfigError, HostUnreachable, ProviderError
from newel.cli.diagnostics import BAD, GOOD, NOTE, Check, Checks
from newel.cli.parser import Parser
from newel.config.hosts import save_host
from newel.config.settings import Flags, Settings, load_host_places, load_settings, newel_home
from newel.text.sanitize import redact_url, sanitize
from newel.workspace.ssh.protocol import HostInfo
from newel.workspace.ssh.target import FORMS, Target

if TYPE_CHECKING:
    from newel.workspace.ssh.connection import SshConnection

FAR_OFF: Final = 5
"""Seconds by which a host's clock may differ before a user should know."""

PINGS: Final = 5

WITHOUT: Final = {
    "rg": "searches use grep",
    "git": "what git ignores is not known, so that more files are covered",
    "setsid": "of a command that is stopped, what has left its session may go on",
}
"""What it means for work on a host that a program is not there."""


def command_hosts(arguments: Sequence[str]) -> int:
    parser = Parser(prog="newel hosts", description="The hosts that `--host` knows by a name.")
    actions = parser.add_subparsers(dest="action", metavar="list | add | remove | test")
    actions.add_parser("list", help="all of them")
    add = actions.add_parser("add", help="give a place a name")
    add.add_argument("name")
    add.add_argument("place", help=FORMS)
    remove = actions.add_parser("remove", help="forget a name")
    remove.add_argument("name")
    test = actions.add_parser("test", help="whether work there is possible, and what to do where it is not")
    test.add_argument("place", help=f"a name, or {FORMS}")
    test.add_argument("--model", metavar="NAME", help="a model of the host that has to be there")
    given = parser.parse_args(arguments)
    home = newel_home(os.environ)
    run: dict[str | None, Callable[[Path, argparse.Namespace], int]] = {
        "add": _add,
        "remove": _remove,
        "test": _test,
    }
    return run.get(given.action, _list)(home, given)


def _list(home: Path, _: argparse.Namespace) -> int:
    known = load_host_places(home)
    width = max(map(len, known), default=0)
    for name, place in known.items():
        print(sanitize(f"{name:<{width}}  {place}"))
    if not known:
        print("No hosts yet. Add one: newel hosts add NAME user@host:/path")
    return 0


def _add(home: Path, given: argparse.Namespace) -> int:
    Target.parse(given.place)
    save_host(home, given.name, given.place)
    print(f"newel --host {given.name} works there. newel hosts test {given.name} tells whether it can.")
    return 0


def _remove(home: Path, given: argparse.Namespace) -> int:
    save_host(home, given.name, None)
    return 0


def _test(_: Path, given: argparse.Namespace) -> int:
    through = None if given.model is None else "auto"
    flags = Flags(host=given.place, model=given.model, through=through)
    settings = load_settings(flags, cwd=Path.cwd(), environ=os.environ)
    findings = Checks()
    anyio.run(findings.show_each, _looked_at(settings))
    return findings.close()


async def _looked_at(settings: Settings) -> AsyncIterator[Check]:
    """What there is to know of a host, each as soon as it is known."""
    from newel.app.hosts import connect_to

    target = Target.parse(settings.host or "")
    try:
        async with connect_to(target) as connection:
            there = connection.target
            milliseconds = min([await connection.ping() for _ in range(PINGS)]) * 1000
            user = connection.info.user or there.user
            yield Check(
                GOOD, "ssh", f"{user}@{there.host}, port {there.port}, {milliseconds:.1f} ms a request"
            )
            for finding in _facts(connection.info):
                yield finding
            async for finding in _model(connection, settings):
                yield finding
    except HostUnreachable as error:
        yield Check(BAD, error.kind.replace("_", " "), str(error))


def _facts(facts: HostInfo) -> Iterator[Check]:
    yield Check(GOOD, "folder", facts.root)
    yield Check(NOTE, "system", f"{facts.system}, commands run in {facts.bash or 'sh: it has no bash'}")
    for name, without in WITHOUT.items():
        yield Check(NOTE, name, getattr(facts, name) or f"not there: {without}")
    if abs(facts.clock_ahead) > FAR_OFF:
        yield Check(NOTE, "clock", f"{facts.clock_ahead:+} s against this machine's")


async def _model(there: SshConnection, settings: Settings) -> AsyncIterator[Check]:
    """Which model agents would have there, and what the host has of its own."""
    from newel.app.model_resolver import model_on, server_on

    wanted = settings.host_model
    is_asked_for = wanted is not None and wanted.is_asked_for
    through = wanted.through if wanted else "auto"
    names: list[str] = []
    async with aclosing(server_on(there, through, settings.remote.model.port)) as server:
        try:
            names = await server.models()
        except ProviderError as error:
            yield Check(BAD if is_asked_for else NOTE, "ollama", str(error))
            if is_asked_for:
                return
        else:
            because = f": {server.reason}" if server.reason else ""
            yield Check(GOOD, "ollama", f"{server.way}{because}")
    if wanted is None or not (names or is_asked_for):
        yield await _model_of_here(settings)
    else:
        try:
            yield _is_there(model_on(names, wanted, there.place), names, there.place)
        except ConfigError as error:
            yield Check(BAD, "model", str(error))


async def _model_of_here(settings: Settings) -> Check:
    from newel.app.model_resolver import find_endpoint

    try:
        endpoint = await find_endpoint(settings)
    except ConfigError as error:
        return Check(BAD, "model", str(error))
    return Check(
        NOTE,
        "model",
        f"{settings.model or 'that'} of {redact_url(endpoint.base_url)} ({endpoint.origin})",
    )


def _is_there(model: str, names: list[str], place: str) -> Check:
    from newel.providers.ollama.model_info import full_name, missing_model_error

    if full_name(model) in map(full_name, names):
        return Check(GOOD, "model", f"{model}, of the host")
    return Check(BAD, "model", str(missing_model_error(model, f"Ollama on {place}")))
