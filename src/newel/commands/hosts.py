"""``newel hosts``: the hosts that have names, and whether one can be worked on, with the remedy for what is wrong."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from newel import config
from newel.agent.errors import HostUnreachable, ProviderError, WorkspaceError
from newel.commands.findings import BAD, GOOD, NOTE, Finding, Findings
from newel.config import Flags
from newel.config_hosts import keep, known_hosts, named
from newel.terminal.safe import safe
from newel.workspace.ssh.facts import Facts
from newel.workspace.ssh.target import FORMS, Target

if TYPE_CHECKING:
    from newel.app.remote_host import RemoteHost
    from newel.config_jexida import ModelChoice

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
    parser = argparse.ArgumentParser(
        prog="newel hosts", description="The hosts that `--host` knows by a name."
    )
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
    home = config.newel_home(os.environ)
    run: dict[str | None, Callable[[Path, argparse.Namespace], int]] = {
        "add": _add,
        "remove": _remove,
        "test": _test,
    }
    return run.get(given.action, _list)(home, given)


def _list(home: Path, _: argparse.Namespace) -> int:
    known = known_hosts(home)
    width = max(map(len, known), default=0)
    for name, place in known.items():
        print(safe(f"{name:<{width}}  {place}"))
    if not known:
        print("No host has a name yet: newel hosts add NAME user@host:/path")
    return 0


def _add(home: Path, given: argparse.Namespace) -> int:
    Target.parse(given.place)
    keep(home, given.name, given.place)
    print(f"newel --host {given.name} works there. newel hosts test {given.name} tells whether it can.")
    return 0


def _remove(home: Path, given: argparse.Namespace) -> int:
    keep(home, given.name, None)
    return 0


def _test(home: Path, given: argparse.Namespace) -> int:
    settings = config.load(Flags(host=given.place), cwd=Path.cwd(), environ=os.environ)
    target = Target.parse(named(home, given.place))
    findings = Findings()
    anyio.run(findings.show_each, _looked_at(target, settings.remote.model, given.model))
    return findings.close()


async def _looked_at(target: Target, choice: ModelChoice, wanted: str | None) -> AsyncIterator[Finding]:
    """What there is to know of a host, each as soon as it is known. A model that is ``wanted`` has to be there."""
    from newel.app.ground import SSH_CONFIG
    from newel.app.remote_host import remote_host

    async with remote_host(target, config=os.environ.get(SSH_CONFIG)) as host:
        try:
            connection = await host.connection()
        except HostUnreachable as error:
            yield Finding(BAD, error.kind.replace("_", " "), str(error))
            return
        there = connection.target
        milliseconds = min([await connection.ping() for _ in range(PINGS)]) * 1000
        user = connection.facts.user or there.user
        yield Finding(GOOD, "ssh", f"{user}@{there.host}, port {there.port}, {milliseconds:.1f} ms a request")
        for finding in _facts(connection.facts):
            yield finding
        async for finding in _model(host, choice, wanted):
            yield finding


def _facts(facts: Facts) -> Iterator[Finding]:
    yield Finding(GOOD, "folder", facts.root)
    yield Finding(NOTE, "system", f"{facts.system}, commands run in {facts.bash or 'sh: it has no bash'}")
    for name, without in WITHOUT.items():
        yield Finding(NOTE, name, getattr(facts, name) or f"not there: {without}")
    if abs(facts.clock_ahead) > FAR_OFF:
        yield Finding(NOTE, "clock", f"{facts.clock_ahead:+} s against this machine's")


async def _model(host: RemoteHost, choice: ModelChoice, wanted: str | None) -> AsyncIterator[Finding]:
    """Whether a model of the host can be asked. Nobody needs one who works there with a model of elsewhere."""
    from newel.providers.ollama_model import full_name, missing
    from newel.providers.ollama_there import OllamaThere

    wrong = BAD if wanted else NOTE
    async with aclosing(OllamaThere(partial(host.tunnel, choice.port), host)) as there:
        try:
            names = await there.models()
        except (ProviderError, WorkspaceError) as error:
            yield Finding(wrong, "ollama", str(error))
            return
        because = f": {there.reason}" if there.reason else ""
        yield Finding(GOOD, "ollama", f"{there.way}{because}")
    name = wanted or choice.name
    if full_name(name) in map(full_name, names):
        yield Finding(GOOD, "model", name)
    else:
        yield Finding(wrong, "model", str(missing(name, f"Ollama on {host.place}")))
