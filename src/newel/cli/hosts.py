"""``newel hosts``: named hosts, and a test of one, with a remedy for each problem."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from newel.agent.errors import ConfigError, HostUnreachable, ProviderError
from newel.cli.diagnostics import BAD, GOOD, NOTE, Check, Checks
from newel.cli.options import Parser
from newel.config.hosts import save_host
from newel.config.settings import Flags, Settings, load_host_places, load_settings, newel_home
from newel.text.sanitize import redact_url, sanitize
from newel.workspace.ssh.port import HostInfo
from newel.workspace.ssh.target import FORMS, Target

if TYPE_CHECKING:
    from newel.workspace.ssh.connection import SshConnection

MAX_CLOCK_DIFFERENCE_S: Final = 5
"""Seconds of clock difference that are reported."""

PINGS: Final = 5

MISSING_EFFECTS: Final = {
    "rg": "searches use grep",
    "git": ".gitignore is not honoured, so more files are recorded",
    "setsid": "processes that left the session of a stopped command may keep running",
}
"""The effect of a missing program."""


def command_hosts(arguments: Sequence[str]) -> int:
    parser = Parser(prog="newel hosts", description="Manage the names of hosts for `--host`.")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="list the named hosts (default)")
    add = actions.add_parser("add", help="name a place")
    add.add_argument("name", metavar="NAME", help="what you call it, for `--host NAME`")
    add.add_argument("place", metavar="PLACE", help=FORMS)
    remove = actions.add_parser("remove", help="remove a name")
    remove.add_argument("name", metavar="NAME", help="the name, as `newel hosts list` shows it")
    test = actions.add_parser("test", help="test a host, and show how to fix problems")
    test.add_argument("place", metavar="PLACE", help=f"a name, or {FORMS}")
    test.add_argument("--model", metavar="NAME", help="also require this model on the host")
    options = parser.parse_args(arguments)
    home = newel_home(os.environ)
    run = {"add": _add, "remove": _remove, "test": _test}.get(options.action, _list)
    return run(home, options)


def _list(home: Path, _: argparse.Namespace) -> int:
    places = load_host_places(home)
    width = max(map(len, places), default=0)
    for name, place in places.items():
        print(sanitize(f"{name:<{width}}  {place}"))
    if not places:
        print("No hosts yet. Add one: newel hosts add NAME user@host:/path")
    return 0


def _add(home: Path, options: argparse.Namespace) -> int:
    Target.parse(options.place)
    save_host(home, options.name, options.place)
    print(f"Added. Test it: newel hosts test {options.name}")
    return 0


def _remove(home: Path, options: argparse.Namespace) -> int:
    save_host(home, options.name, None)
    return 0


def _test(_: Path, options: argparse.Namespace) -> int:
    through = None if options.model is None else "auto"
    flags = Flags(host=options.place, model=options.model, through=through)
    settings = load_settings(flags, cwd=Path.cwd(), environ=os.environ)
    findings = Checks()
    anyio.run(findings.show_each, _test_host(settings))
    return findings.close()


async def _test_host(settings: Settings) -> AsyncIterator[Check]:
    """Check a host; each result comes as soon as it is known."""
    from newel.app.hosts import connect_to

    target = Target.parse(settings.host or "")
    try:
        async with connect_to(target) as connection:
            address = connection.target
            milliseconds = min([await connection.ping() for _ in range(PINGS)]) * 1000
            user = connection.info.user or address.user
            yield Check(
                GOOD, "ssh", f"{user}@{address.host}, port {address.port}, {milliseconds:.1f} ms a request"
            )
            for finding in _facts(connection.info):
                yield finding
            yield await _sandbox(connection, settings)
            async for finding in _model(connection, settings):
                yield finding
    except HostUnreachable as error:
        yield Check(BAD, error.kind.replace("_", " "), str(error))


def _facts(facts: HostInfo) -> Iterator[Check]:
    yield Check(GOOD, "folder", facts.root)
    yield Check(NOTE, "system", f"{facts.system}, commands run in {facts.bash or 'sh: no bash found'}")
    for name, without in MISSING_EFFECTS.items():
        yield Check(NOTE, name, getattr(facts, name) or f"not found: {without}")
    if abs(facts.clock_ahead) > MAX_CLOCK_DIFFERENCE_S:
        yield Check(NOTE, "clock", f"{facts.clock_ahead:+} s compared with this machine")


async def _sandbox(connection: SshConnection, settings: Settings) -> Check:
    """Whether commands there would run in a sandbox."""
    from newel.app.agent_place import sandboxes_on
    from newel.app.sandbox_choice import wanted, why_not_on

    if settings.sandbox.mode == "off":
        return Check(NOTE, "sandbox", "off")
    confined = wanted(settings)
    why = await why_not_on(sandboxes_on(connection, confined), connection.info.root)
    mode = confined.sandbox.mode or "read-only"
    return Check(NOTE, "sandbox", why) if why else Check(GOOD, "sandbox", mode)


async def _model(connection: SshConnection, settings: Settings) -> AsyncIterator[Check]:
    """Check the model that agents would use there, and the host's own models."""
    from newel.app.model_resolver import model_on, server_on

    model = settings.host_model
    is_requested = model is not None and model.is_requested
    through = model.through if model else "auto"
    names: list[str] = []
    async with aclosing(server_on(connection, through, settings.remote.model.port)) as server:
        try:
            names = await server.models()
        except ProviderError as error:
            yield Check(BAD if is_requested else NOTE, "ollama", str(error))
            if is_requested:
                return
        else:
            because = f": {server.reason}" if server.reason else ""
            yield Check(GOOD, "ollama", f"{server.way}{because}")
    if model is None or not (names or is_requested):
        yield await _model_of_here(settings)
    else:
        try:
            yield _is_there(model_on(names, model, connection.place), names, connection.place)
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
        f"{settings.model or 'the model'} of {redact_url(endpoint.base_url)} ({endpoint.origin})",
    )


def _is_there(model: str, names: list[str], place: str) -> Check:
    from newel.providers.ollama.model_info import full_name, missing_model_error

    if full_name(model) in map(full_name, names):
        return Check(GOOD, "model", f"{model}, on the host")
    return Check(BAD, "model", str(missing_model_error(model, f"Ollama on {place}")))
